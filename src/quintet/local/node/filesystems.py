"""ext4 file systems on loop devices, the volumes of the StorageClass `exact`.

The volume NAME is a file NAME.img of exactly the requested size in the folder of a node's volumes, mounted at
the folder NAME in the node's mount namespace. `mount` creates the loop device so that the kernel removes it
with the mount: when the volume is unmounted, or when the last process of the node has ended.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quintet.local import teardown
from quintet.local.errors import LocalError
from quintet.local.node.volumes import DATA
from quintet.local.paths import UNFINISHED

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

SUFFIX = ".img"
# All of the size is for files: no blocks are reserved for root. One block size for small and large volumes.
FORMAT = ("mkfs.ext4", "-q", "-F", "-m", "0", "-b", "4096")
CAP_SYS_RESOURCE = 24
# The exit code of e2fsck after it has corrected errors, for example of a growth that was killed.
CORRECTED = 1


@dataclass(frozen=True, slots=True)
class Filesystems:
    """The file systems below a folder; `machine` is the mount namespace in which nothing is unmounted."""

    folder: Path
    machine: str

    def image(self, name: str) -> Path:
        """Return the file that contains the file system of a volume."""
        return self.folder / f"{name}{SUFFIX}"

    def create(self, name: str, size: int) -> None:
        """Create the file system of a volume if it does not exist, and mount it; any user can write to it."""
        image = self.image(name)
        if not image.exists():
            unfinished = image.with_name(f"{image.name}{UNFINISHED}")
            with unfinished.open("wb") as file:
                file.truncate(size)  # without writing: it takes disk space when it is used
            _run(*FORMAT, str(unfinished))
            unfinished.rename(image)
        self.mount(name)
        data = self.folder / name / DATA
        data.mkdir(exist_ok=True)
        data.chmod(0o777)

    def mount(self, name: str) -> None:
        """Mount the file system of a volume if it is not mounted."""
        place = self.folder / name
        place.mkdir(exist_ok=True)
        if not place.is_mount():
            _run("mount", "-t", "ext4", "-o", "loop", str(self.image(name)), str(place))

    def mount_all(self, without: Collection[str]) -> None:
        """Mount the file systems of all volumes, except those that wait until they can grow."""
        for image in sorted(self.folder.glob(f"*{SUFFIX}")):
            if image.stem not in without:
                self.mount(image.stem)

    def grow(self, name: str, size: int, *, in_use: bool) -> bool:
        """Grow the file system of a volume; return whether it has the size, or waits until no pod uses it.

        `in_use` says that the kernel permits this process to grow a file system in use. Without that, it is
        unmounted here. Pods that use it keep it; another pod cannot start until it has grown.
        """
        image, place = self.image(name), self.folder / name
        if in_use:
            self.mount(name)
            _extend(image, size)
            device = teardown.find_loop_device(place)
            assert device is not None, f"{place} was mounted by somebody else"
            _run("losetup", "--set-capacity", device)
            _run("resize2fs", device)
            return True
        if place.is_mount():
            teardown.unmount(place, within=self.folder, machine=self.machine)
        if is_attached(image):
            return False
        _extend(image, size)
        _run("e2fsck", "-f", "-p", str(image), success=(0, CORRECTED))
        _run("resize2fs", str(image))
        self.mount(name)
        return True

    def delete(self, name: str) -> None:
        """Unmount and remove the file system of a volume."""
        place = self.folder / name
        if place.is_mount():
            teardown.unmount(place, within=self.folder, machine=self.machine)
        teardown.remove_file(self.image(name), within=self.folder)
        teardown.remove_tree(place, within=self.folder)


def can_grow_in_use(status: Path = Path("/proc/self/status")) -> bool:
    """Return whether this process has CAP_SYS_RESOURCE, which it lacks in most containers."""
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
    return bool(int(lines["CapEff"], 16) >> CAP_SYS_RESOURCE & 1)


def is_attached(image: Path, devices: Path = Path("/sys/block")) -> bool:
    """Return whether a loop device uses the file, which means that it is mounted in some mount namespace.

    If the devices cannot be listed, assume that one does: to grow a mounted file would damage it.
    """
    found = list(devices.glob("loop*"))
    for device in found:
        with suppress(OSError):  # not in use, or detached meanwhile
            if (device / "loop/backing_file").read_text().strip() == str(image.resolve()):
                return True
    return not found


def _extend(image: Path, size: int) -> None:
    if image.stat().st_size < size:
        with image.open("r+b") as file:
            file.truncate(size)


def _run(*command: str, success: Sequence[int] = (0,)) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode not in success:
        lines = (result.stderr or result.stdout).strip().splitlines() or ["no error message"]
        raise LocalError(f"{command[0]} failed: {lines[-1]}", f"run `{' '.join(command)}` on the node")
