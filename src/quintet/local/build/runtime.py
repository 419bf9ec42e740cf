"""Finds the container runtime of nodes: containerd, runc and the CNI plugins.

The machine's own are used if they are new enough. Otherwise containerd and the plugins are built from Go
modules, so that they have the same version on every distribution. runc needs a C compiler, so it comes from a
Debian package, which is unpacked into the cache: installing it could remove Docker's.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quintet.local.build.packages import find_program, unpack_packages
from quintet.local.build.programs import build_containerd

if TYPE_CHECKING:
    from collections.abc import Callable

CONTAINERD_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr")
# Kubelets after 1.37 need containerd 2; the configuration of nodes is written for it.
MINIMUM_CONTAINERD = (2, 0)
MINIMUM_RUNC = (1, 1)
PLUGINS = ("ptp", "host-local", "loopback")
PLUGIN_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")


@dataclass(frozen=True, slots=True)
class ContainerRuntime:
    """Paths of the container runtime and the CNI plugins."""

    programs: Path
    runc: Path
    plugins: Path


def find_container_runtime(progress: Callable[[str], None]) -> ContainerRuntime:
    """Return the machine's container runtime; build or unpack what is missing or too old."""
    programs, plugins = _find_containerd(progress), _find_plugins()
    if programs is None or plugins is None:
        built = build_containerd(progress)
        programs, plugins = programs or built, plugins or built
    return ContainerRuntime(programs, _find_runc(progress) or _unpack_runc(progress), plugins)


def _find_plugins() -> Path | None:
    """Return the folder of the machine's CNI plugins; None if one is missing."""
    folders = map(Path, PLUGIN_FOLDERS)
    return next((each for each in folders if all((each / name).exists() for name in PLUGINS)), None)


def find_runtime_versions() -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """Return the versions of the machine's containerd and runc; None for one that is missing."""
    home, runc = _find_containerd_folder(), find_program("runc")
    containerd = read_version(home / "containerd") if home else None
    return containerd, read_version(Path(runc)) if runc else None


def _find_containerd(progress: Callable[[str], None]) -> Path | None:
    """Return the folder of the machine's containerd; None if it is missing or too old."""
    home = _find_containerd_folder()
    return home if home and _is_new_enough(home / "containerd", MINIMUM_CONTAINERD, progress) else None


def _find_containerd_folder() -> Path | None:
    """Return the folder of the machine's containerd; it must also hold its shim and client."""
    found = find_program("containerd")
    if found is None:
        return None
    # /usr/local/bin often has a link to the folder of an unpacked release.
    homes = (Path(found).parent, Path(found).resolve().parent)
    complete = (home for home in homes if all((home / each).exists() for each in CONTAINERD_PROGRAMS))
    return next(complete, None)


def _find_runc(progress: Callable[[str], None]) -> Path | None:
    found = find_program("runc")
    return Path(found) if found and _is_new_enough(Path(found), MINIMUM_RUNC, progress) else None


def _is_new_enough(program: Path, minimum: tuple[int, int], progress: Callable[[str], None]) -> bool:
    found = read_version(program)
    if found is None or found < minimum:
        version = f"version {format_version(found)}" if found else "of an unknown version"
        progress(f"{program} is {version}, a node needs {format_version(minimum)} or newer")
        return False
    return True


def format_version(version: tuple[int, ...]) -> str:
    """Return a version as text."""
    return ".".join(map(str, version))


def read_version(program: Path) -> tuple[int, int] | None:
    """Return the major and minor version of containerd or runc; None if it cannot be determined."""
    try:
        result = subprocess.run([str(program), "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\bv?(\d+)\.(\d+)\.\d+", result.stdout)
    return (int(found[1]), int(found[2])) if found and result.returncode == 0 else None


def _unpack_runc(progress: Callable[[str], None]) -> Path:
    root = unpack_packages(("runc",), progress)
    # The folder differs between Debian releases.
    return next(filter(Path.exists, (root / "usr/sbin/runc", root / "usr/bin/runc")))
