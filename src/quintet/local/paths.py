"""Where things are kept: build products in the user's cache, clusters in the user's state directory.

Called by every module of `local`. Nothing is written anywhere else on the machine.
"""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_NAME = "default"
# A name becomes part of a host name, a cgroup and a path.
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


def cache_directory() -> Path:
    """What can be made again: binaries, unpacked packages, images."""
    return _base("XDG_CACHE_HOME", ".cache")


def clusters_directory() -> Path:
    """One folder per cluster that is running, or was when the machine stopped."""
    return _base("XDG_STATE_HOME", ".local/state") / "clusters"


def cluster_directory(name: str) -> Path:
    """The folder of one cluster: its certificates, logs, data and process records."""
    if not NAME.fullmatch(name):
        raise LocalError(
            f"'{name}' is not a cluster name",
            "use at most 40 lower-case letters, digits and '-', beginning and ending with a letter or digit",
        )
    return clusters_directory() / name


def shipped(name: str) -> Path:
    """A file or folder that belongs to us: in the package when installed, else in the checkout."""
    here = Path(__file__).resolve().parent
    packaged = here / "share" / name
    return packaged if packaged.exists() else here.parents[2] / name


def _base(variable: str, fallback: str) -> Path:
    # The XDG specification tells us to ignore relative paths.
    given = os.environ.get(variable, "")
    return (Path(given) if given.startswith("/") else Path.home() / fallback) / "quintet"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path` and remove it afterwards; the kernel lets go of it when this process dies."""
    descriptor = _lock(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _lock(path: Path) -> int:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # whoever held the lock before us has just removed the folder
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # The holder before us has removed the file: then our lock is on nothing.
            if _same_file(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def remove_if_empty(*directories: Path) -> None:
    """Remove folders that hold nothing more."""
    for directory in directories:
        with suppress(OSError):
            directory.rmdir()


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
