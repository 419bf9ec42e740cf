"""The cgroup that contains all processes of a node, so that all of them can be found and stopped.

A process cannot leave its cgroup by forking, so shims and containers are found even if the runtime that
started them is dead. Supports cgroup v1 and v2.
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
# Processes that start meanwhile must be moved too, so try several times.
ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The cgroup of a cluster, or of one of its nodes; on v1 it has a folder in each hierarchy."""

    name: str
    node: str = ""

    def __post_init__(self) -> None:
        teardown.check_cgroup_name(self.name, self.node)

    @property
    def path(self) -> str:
        """The path of the cgroup in its hierarchies, as the kubelet names it."""
        return f"/{self.name}/{self.node}".rstrip("/")

    @property
    def folders(self) -> list[Path]:
        """The folder of the cgroup in each hierarchy."""
        return [hierarchy / self.name / self.node for hierarchy in find_hierarchies()]

    @property
    def system(self) -> Path:
        """The child cgroup of its own programs: cgroup v2 allows processes in leaves only."""
        # One hierarchy is enough to find the processes. On v1 use pids, which works without settings.
        tracked = next((each for each in self.folders if "pids" in each.parts), self.folders[0])
        return tracked / "system"

    def create(self) -> None:
        """Create the folders of the cgroup."""
        for folder in self.folders:
            folder.mkdir(parents=True, exist_ok=True)
        match find_hierarchies():
            case [root] if (root / "cgroup.controllers").exists():
                enable_controllers(root)
                enable_controllers(root / self.name)
                if self.node:
                    enable_controllers(root / self.name / self.node)
        self.system.mkdir(exist_ok=True)

    def pids(self) -> set[int]:
        """Return the pids of all its processes, at any depth."""
        return teardown.list_pids(self.folders)

    def clear(self) -> None:
        """Kill all its processes and remove it."""
        teardown.remove_cgroup(self.name, find_hierarchies(), self.node)


def cluster_cgroup(directory: Path) -> Cgroup:
    """Return the cgroup of the cluster in that folder; its name contains a hash of the path.

    The name is derived, never read from a file: an empty name would mean the root of the hierarchy, which
    contains every process of the machine.
    """
    hashed = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:8]
    return Cgroup(f"quintet-{directory.name}-{hashed}")


def find_hierarchies(root: Path = ROOT) -> list[Path]:
    """Return the mounted cgroup hierarchies: one on v2, one per controller on v1."""
    if (root / "cgroup.controllers").exists():
        return [root]
    found: dict[int, Path] = {}
    for path in sorted(root.glob("*/cgroup.procs")):
        # Names such as cpu and cpu,cpuacct can be the same hierarchy.
        found.setdefault(path.stat().st_dev, path.parent)
    return list(found.values())


def enable_controllers(folder: Path) -> None:
    """Enable the available controllers of a v2 cgroup for its children."""
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
        f"--node needs the cgroup controllers of {folder}, which cannot be enabled: {failure}",
        "in a container, run it privileged with a cgroup namespace of its own; or omit --node",
    )


def _move_to_leaf(folder: Path) -> None:
    """Move the processes of a v2 cgroup into a leaf, because one with processes cannot enable controllers.

    Only the root cgroup of the machine is exempt, so this is needed in containers, whose processes are in
    the root of their cgroup namespace. kind and Docker in Docker use the same leaf.
    """
    leaf = folder / LEAF
    leaf.mkdir(exist_ok=True)
    for pid in (folder / "cgroup.procs").read_text().split():
        if pid != "0":  # a process outside this pid namespace
            with suppress(OSError):  # it has ended
                (leaf / "cgroup.procs").write_text(pid)
