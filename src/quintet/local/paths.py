"""Paths of the embedded cluster: build products in the user's cache, clusters in the user's state directory.

Nothing is written anywhere else on the machine.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import secrets
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from quintet.local import teardown
from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_NAME = "default"
UNFINISHED = ".unfinished"
# A name becomes part of a host name, a cgroup and a path.
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


def cache_directory() -> Path:
    """Return the folder for what can be rebuilt: binaries, unpacked packages, images."""
    return _base("XDG_CACHE_HOME", ".cache")


def name_for_platform(name: str) -> str:
    """Return a name with a suffix for the platform, because machines can share a cache."""
    here = f"{platform.system()}-{platform.machine()}".lower()
    return name if here == "linux-x86_64" else f"{name}-{here}"


def clusters_directory() -> Path:
    """Return the folder that holds one folder per cluster."""
    return _base("XDG_STATE_HOME", ".local/state") / "clusters"


def cluster_directory(name: str) -> Path:
    """Return the folder of a cluster: its certificates, logs, data and process records."""
    if not NAME.fullmatch(name):
        raise LocalError(
            f"'{name}' is not a cluster name",
            "use at most 40 lower-case letters, digits and '-', beginning and ending with a letter or digit",
        )
    return clusters_directory() / name


def find_resource(name: str) -> Path:
    """Return the path of a shipped file or folder: in the installed package, else in the checkout."""
    here = Path(__file__).resolve().parent
    packaged = here / "share" / name
    return packaged if packaged.exists() else here.parents[2] / name


def _base(variable: str, fallback: str) -> Path:
    # The XDG specification requires that relative paths are ignored.
    given = os.environ.get(variable, "")
    return (Path(given) if given.startswith("/") else Path.home() / fallback) / "quintet"


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, then remove it; the kernel releases the lock if this process dies."""
    descriptor = _lock(path)
    try:
        yield
    finally:
        teardown.remove_file(path, within=path.parent)
        os.close(descriptor)


def _lock(path: Path) -> int:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # the previous holder has just removed the folder
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # If the previous holder has removed the file, this lock is on a deleted file.
            if _same_file(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


@contextmanager
def build_folder(product: Path, leftovers: str = "") -> Iterator[Path]:
    """Provide a temporary folder for building `product`; remove the folders of killed builds first.

    The caller holds the lock of the product.
    """
    for left in product.parent.glob(f"{leftovers or product.name}-*{UNFINISHED}"):
        teardown.remove_tree(left, within=product.parent)
    folder = Path(tempfile.mkdtemp(prefix=f"{product.name}-", suffix=UNFINISHED, dir=product.parent))
    try:
        yield folder
    finally:
        teardown.remove_tree(folder, within=product.parent)


def write_file(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file atomically: after a crash it has the old content or the new."""
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}{UNFINISHED}")
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
    except BaseException:
        teardown.remove_file(unfinished, within=path.parent)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
