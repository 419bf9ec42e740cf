"""The cgroup that holds everything of one node: by it the whole node is found and ended.

Called by `node`. A process cannot leave its cgroup by forking, so shims and containers are
found here even if the runtime that started them is dead. Works on cgroup v1 and v2.
"""

from __future__ import annotations

import errno
import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from quintet.local import teardown
from quintet.local.errors import LocalError

ROOT = Path("/sys/fs/cgroup")
LEAF = "init"
CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "io", "hugetlb")
# Processes that are started meanwhile have to be moved as well.
ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A cgroup by name, which on v1 is a folder in each hierarchy."""

    name: str

    def __post_init__(self) -> None:
        teardown.check_cgroup_name(self.name)

    @property
    def folders(self) -> list[Path]:
        """Its folder in each hierarchy."""
        return [hierarchy / self.name for hierarchy in find_hierarchies()]

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
        match self.folders:
            case [only] if (only.parent / "cgroup.controllers").exists():
                enable_controllers(only.parent)
                enable_controllers(only)
        self.system.mkdir(exist_ok=True)

    def pids(self) -> set[int]:
        """Return every process in it, at any depth."""
        return teardown.list_pids(self.folders)

    def clear(self) -> None:
        """Kill every process in it and remove it."""
        teardown.remove_cgroup(self.name, find_hierarchies())


def cluster_cgroup(directory: Path) -> Cgroup:
    """Return the cgroup of the cluster in that folder; another folder's of the same name has another.

    The name is derived, never read from a file: with an empty name a cgroup would be the root of its
    hierarchy, and every process of the machine would be in it.
    """
    hashed = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:8]
    return Cgroup(f"quintet-{directory.name}-{hashed}")


def find_hierarchies(root: Path = ROOT) -> list[Path]:
    """Return the mounted hierarchies: one on v2, one per controller on v1."""
    if (root / "cgroup.controllers").exists():
        return [root]
    found: dict[int, Path] = {}
    for path in sorted(root.glob("*/cgroup.procs")):
        # Names such as cpu and cpu,cpuacct may be one hierarchy seen twice.
        found.setdefault(path.stat().st_dev, path.parent)
    return list(found.values())


def enable_controllers(folder: Path) -> None:
    """Enable every controller of a v2 cgroup for its children."""
    switch, failure = folder / "cgroup.subtree_control", None
    for _ in range(ATTEMPTS):
        try:
            available = set((folder / "cgroup.controllers").read_text().split())
            for controller in available.intersection(CONTROLLERS).difference(switch.read_text().split()):
                switch.write_text(f"+{controller}")
            return
        except OSError as error:
            failure = error
            if error.errno != errno.EBUSY:
                break
            _move_to_leaf(folder)
    raise LocalError(
        f"--node needs the cgroup controllers of {folder}, and they cannot be enabled: {failure}",
        "in a container, run it privileged with a cgroup namespace of its own; or leave --node out",
    )


def _move_to_leaf(folder: Path) -> None:
    """Move the processes of a v2 cgroup into a leaf: with processes of its own it gives children nothing.

    Only the root cgroup of the machine may have both, so this happens in containers, whose processes are
    in the root of their cgroup namespace. kind and Docker in Docker use the same leaf.
    """
    leaf = folder / LEAF
    leaf.mkdir(exist_ok=True)
    for pid in (folder / "cgroup.procs").read_text().split():
        if pid != "0":  # a process that this pid namespace does not see
            with suppress(OSError):  # it has ended
                (leaf / "cgroup.procs").write_text(pid)
