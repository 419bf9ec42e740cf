"""The cgroup that holds everything of one node: by it the whole node is found and ended.

Called by `node`. A process cannot leave its cgroup by forking, so shims and containers are
found here even if the runtime that started them is dead. Works on cgroup v1 and v2.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from quintet.local.errors import LocalError

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "io", "hugetlb")
SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Group:
    """A cgroup by name, which on v1 is a folder in each hierarchy."""

    name: str

    @property
    def folders(self) -> list[Path]:
        """Its folder in each hierarchy."""
        return [hierarchy / self.name for hierarchy in hierarchies()]

    @property
    def system(self) -> Path:
        """Where the node's own programs are; a leaf, because v2 wants processes in leaves only."""
        # One hierarchy is enough to find processes again. v1 has no cpuset default, pids has no settings.
        tracked = next((each for each in self.folders if each.parent.name == "pids"), self.folders[0])
        return tracked / "system"

    def create(self) -> None:
        """Make the folders."""
        for folder in self.folders:
            folder.mkdir(exist_ok=True)
            for level in (folder.parent, folder):
                _enable_controllers(level)
        self.system.mkdir(exist_ok=True)

    def pids(self) -> set[int]:
        """Return every process in it, at any depth."""
        found: set[int] = set()
        for folder in self.folders:
            # os.walk does not mind folders that are removed while it looks; Path.rglob does.
            for path, _, _ in os.walk(folder):
                with suppress(OSError):
                    found.update(int(line) for line in Path(path, "cgroup.procs").read_text().split())
        return found

    def clear(self) -> None:
        """Kill every process in it and remove it."""
        deadline = time.monotonic() + SECONDS
        while pids := self.pids():
            if time.monotonic() > deadline:
                raise LocalError(
                    f"processes of cgroup {self.name} do not end: {sorted(pids)}", "run it again"
                )
            self._kill(pids)
            time.sleep(0.02)
        while left := [folder for folder in self.folders if folder.exists()]:
            if time.monotonic() > deadline:
                raise LocalError(f"{left[0]} cannot be removed", "run the command again")
            for folder in left:
                for path, _, _ in os.walk(folder, topdown=False):
                    with suppress(OSError):  # the kernel lets go of dead processes a moment later
                        os.rmdir(path)

    def _kill(self, pids: set[int]) -> None:
        # A pid may end and be given to a stranger while we look: the descriptor stays with the process
        # it was opened for, and only one that is still in the cgroup afterwards is killed.
        descriptors = {}
        for pid in pids:
            with suppress(ProcessLookupError):
                descriptors[pid] = os.pidfd_open(pid)
        members = self.pids()
        for pid, descriptor in descriptors.items():
            if pid in members:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            os.close(descriptor)


def hierarchies(root: Path = ROOT) -> list[Path]:
    """Return the mounted hierarchies: one on v2, one per controller on v1."""
    if (root / "cgroup.controllers").exists():
        return [root]
    found: dict[int, Path] = {}
    for path in sorted(root.glob("*/cgroup.procs")):
        # Names such as cpu and cpu,cpuacct may be one hierarchy seen twice.
        found.setdefault(path.stat().st_dev, path.parent)
    return list(found.values())


def _enable_controllers(folder: Path) -> None:
    switch = folder / "cgroup.subtree_control"
    for controller in CONTROLLERS:
        with suppress(OSError):  # v1, or a controller this kernel does not have
            switch.write_text(f"+{controller}")
