"""Kills processes, unmounts, and removes cgroups, folders and files: no other module of `local` does.

Each function checks its target before it acts: a process by its start time, a cgroup by its name, a path by
the folder that must contain it, without following symbolic links. docs/embedded-cluster.md lists the worst
that each call can reach; a unit test keeps such calls out of other modules.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

CGROUP = re.compile(r"quintet-[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?-[0-9a-f]{8}")
NODE = re.compile(r"node-[1-9][0-9]?")
BUILD_TAG = re.compile(r"[a-z0-9][-a-z0-9./]*:build-[0-9a-f]{16}-[0-9a-f]{8}")
MOUNTS = Path("/proc/self/mountinfo")
MOUNT_NAMESPACE = Path("/proc/self/ns/mnt")
LOOP_DEVICE = re.compile(r"/dev/loop[0-9]+")
SECONDS = 20.0


class RefusedError(LocalError):
    """The target does not provably belong to a cluster, so nothing was done."""


def signal_process(pid: int, number: int, is_ours: Callable[[], bool]) -> None:
    """Send a signal to a process if `is_ours()`, checked while a pidfd keeps the pid from being reused."""
    _check_pid(pid)
    if not hasattr(os, "pidfd_open"):
        if is_ours():
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if is_ours():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def check_cgroup_name(name: str, node: str = "") -> None:
    """Raise an error unless these are the names of a cluster's cgroup and of a child for a node."""
    if not CGROUP.fullmatch(name) or (node and not NODE.fullmatch(node)):
        place = "/".join(filter(None, (name, node)))
        raise RefusedError(
            f"'{place}' is not the name of a cluster's cgroup", "run `quintet down` for the cluster you mean"
        )


def list_pids(folders: Iterable[Path]) -> set[int]:
    """Return the pids of all processes in the cgroups and their children."""
    found: set[int] = set()
    for folder in folders:
        # os.walk ignores folders that disappear meanwhile; Path.rglob raises.
        for path, _, _ in os.walk(folder):
            with suppress(OSError):
                found.update(int(line) for line in Path(path, "cgroup.procs").read_text().split())
    return found


def remove_cgroup(name: str, hierarchies: Sequence[Path], node: str = "") -> None:
    """Kill every process in the cgroup of a cluster, or of its node, and remove it from each hierarchy."""
    check_cgroup_name(name, node)
    folders = [hierarchy / name / node for hierarchy in hierarchies]
    deadline = time.monotonic() + SECONDS
    while pids := list_pids(folders):
        if time.monotonic() > deadline:
            raise LocalError(f"processes of cgroup {name} do not end: {sorted(pids)}", "run `down` again")
        _kill_members(pids, folders)
        time.sleep(0.02)
    while left := [folder for folder in folders if folder.exists()]:
        if time.monotonic() > deadline:
            raise LocalError(f"{left[0]} cannot be removed", "run the command again")
        for folder in left:
            for path, _, _ in os.walk(folder, topdown=False):
                with suppress(OSError):  # the kernel releases dead processes a moment later
                    os.rmdir(path)
        time.sleep(0.02)


def _kill_members(pids: Iterable[int], folders: Sequence[Path]) -> None:
    # A pid can be reused meanwhile. A pidfd stays with the process that it was opened for, and only
    # processes that are still in the cgroup after it was opened are killed.
    descriptors = {}
    try:
        for pid in pids:
            _check_pid(pid)
            with suppress(ProcessLookupError):
                descriptors[pid] = os.pidfd_open(pid)
        for pid in list_pids(folders).intersection(descriptors):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptors[pid], signal.SIGKILL)
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)


def _check_pid(pid: int) -> None:
    """Raise an error for a pid that means init, a process group, or this process."""
    if pid <= 1 or pid == os.getpid():
        raise RefusedError(f"refused to signal process {pid}", "run the command from outside the cluster")


def remove_tree(path: Path, *, within: Path, last: Collection[str] = ()) -> None:
    """Remove a folder below `within`, if it exists; remove a symbolic link itself, never its target.

    The entries named in `last` are removed after all others.
    """
    _check_path(path, within)
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
        return
    _check_mounts(path)
    if last and path.exists():
        for entry in path.iterdir():
            if entry.name not in last:
                remove_tree(entry, within=path)
    while path.exists():
        with suppress(FileNotFoundError):  # another process removes it too
            shutil.rmtree(path)


def remove_file(path: Path, *, within: Path) -> None:
    """Remove a file below `within`, if it exists; remove a symbolic link itself, never its target."""
    _check_path(path, within)
    path.unlink(missing_ok=True)


def remove_if_empty(*directories: Path) -> None:
    """Remove the folders that are empty; keep the others."""
    for directory in directories:
        with suppress(OSError):
            directory.rmdir()


def remove_build_tag(engine: str, tag: str) -> None:
    """Remove from docker or podman the tag that one build gave to its image."""
    if not BUILD_TAG.fullmatch(tag):
        raise RefusedError(f"'{tag}' is not a tag of a build", f"remove it with `{engine} image rm`")
    # If this fails, the image stays and only takes disk space.
    subprocess.run([engine, "image", "rm", tag], capture_output=True)


def unmount(path: Path, *, within: Path, machine: str) -> None:
    """Unmount a loop device from a folder below `within`, except in the mount namespace `machine`."""
    _check_path(path, within)
    own = str(MOUNT_NAMESPACE.readlink())
    if not machine or own == machine or find_loop_device(path) is None:
        raise RefusedError(f"refused to unmount {path}: it is not a volume of a node", f"umount {path}")
    result = subprocess.run(["umount", str(path)], capture_output=True, text=True)
    if result.returncode != 0:
        raise LocalError(f"{path} cannot be unmounted: {result.stderr.strip()}", "find out what uses it")


def find_loop_device(path: Path) -> str | None:
    """Return the loop device that is mounted at a folder; None if there is none."""
    return next((device for place, device in reversed(_list_mounts()) if place == path.resolve()), None)


def _check_path(path: Path, within: Path) -> None:
    """Raise an error if the path is not below `within`, or reaches it through a link or `..`."""
    try:
        relative = path.relative_to(within)
    except ValueError:
        relative = Path()
    inside = bool(relative.parts) and ".." not in relative.parts and path.is_absolute()
    if not inside or path.parent.resolve() != within.resolve() / relative.parent:
        raise RefusedError(
            f"refused to remove {path}: it is not in {within}", "if you want to remove it, remove it by hand"
        )


def _check_mounts(path: Path) -> None:
    """Raise an error if something is mounted below the folder: removal would delete its content."""
    place = path.parent.resolve() / path.name
    for mounted, _ in _list_mounts():
        if mounted.is_relative_to(place):
            raise RefusedError(f"refused to remove {path}: {mounted} is mounted", f"umount {mounted}")


def _list_mounts() -> list[tuple[Path, str | None]]:
    """Return where something is mounted, in order, each with its device if that is a loop device."""
    try:
        lines = MOUNTS.read_text().splitlines()
    except OSError:
        return []  # not Linux
    found = []
    for line in lines:
        own, _, filesystem = line.partition(" - ")
        place = re.sub(r"\\(\d{3})", lambda digits: chr(int(digits[1], 8)), own.split()[4])
        device = filesystem.split()[1]
        found.append((Path(place), device if LOOP_DEVICE.fullmatch(device) else None))
    return found
