"""Finds the programs that a node needs on the machine, or gets them from Debian.

The container runtime is taken from PATH or unpacked into the cache, because installing Debian's containerd
would remove Docker's. Other tools conflict with nothing: root installs them with apt and reports it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quintet.local.errors import LocalError
from quintet.local.paths import build_folder, cache_directory, hold_lock, name_for_platform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# ip and nft are in sbin, which is not on every user's PATH.
SEARCH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))
CONTAINERD_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr")
# The oldest versions that a node is tested with; kubelet 1.38 will need containerd 2.0.
MINIMUM_CONTAINERD = (1, 6)
MINIMUM_RUNC = (1, 1)
RUNTIME_PACKAGES = ("containerd", "runc")
PLUGINS = ("ptp", "host-local", "loopback")
PLUGIN_PACKAGE = "containernetworking-plugins"
LOCK_SECONDS = 300
PLUGIN_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")


@dataclass(frozen=True, slots=True)
class ContainerRuntime:
    """Paths of the container runtime and the CNI plugins."""

    programs: Path
    runc: Path
    plugins: Path


def find_program(program: str) -> str | None:
    """Return the path of a program on PATH or in an sbin folder; None if there is none."""
    return shutil.which(program, path=SEARCH)


def find_container_runtime(progress: Callable[[str], None]) -> ContainerRuntime:
    """Return the machine's container runtime; use Debian's for what is missing or too old."""
    plugins = find_plugins()
    programs, runc = _find_containerd(progress), _find_runc(progress)
    if programs is None or runc is None:
        root = unpack_packages(RUNTIME_PACKAGES, progress)
        programs = programs or root / "usr/bin"
        # The folder of runc differs between Debian releases.
        runc = runc or next(filter(Path.exists, (root / "usr/sbin/runc", root / "usr/bin/runc")))
    if plugins is None:
        plugins = unpack_packages((PLUGIN_PACKAGE,), progress) / "usr/lib/cni"
    return ContainerRuntime(programs, runc, plugins)


def find_plugins() -> Path | None:
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
        progress(f"{program} is {version}, a node needs {format_version(minimum)} or newer: using Debian's")
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


def unpack_packages(packages: Sequence[str], progress: Callable[[str], None]) -> Path:
    """Download Debian packages and unpack them into the cache; return the folder. Nothing is installed."""
    target = cache_directory() / name_for_platform("debian-" + "-".join(packages))
    with hold_lock(target.with_suffix(".lock")):
        if not target.is_dir():
            _require_apt(packages)
            progress(f"unpacking {', '.join(packages)} into {target} (not installed)")
            _download(packages, target)
    return target


def install_tools(tools: dict[str, str], progress: Callable[[str], None]) -> None:
    """Install the packages of missing tools; `tools` maps programs to packages."""
    missing = sorted({package for program, package in tools.items() if not find_program(program)})
    if not missing:
        return
    _require_apt(missing)
    if os.geteuid() != 0:
        raise LocalError(f"missing: {', '.join(missing)}", f"apt-get install {' '.join(missing)} (as root)")
    progress(f"installing with apt: {', '.join(missing)}")
    # --no-remove: fail instead of removing a package of the user.
    command = ["apt-get", "install", "--yes", "--no-install-recommends", "--no-remove", *missing]
    _apt(command, f"installing {', '.join(missing)}")


def _download(packages: Sequence[str], target: Path) -> None:
    with build_folder(target) as unfinished:
        # apt downloads as its own user, who needs write permission here.
        unfinished.chmod(0o777)
        _apt(["apt-get", "download", *packages], f"downloading {', '.join(packages)}", cwd=str(unfinished))
        root = unfinished / "root"
        for archive in sorted(unfinished.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(archive), str(root)], check=True)
        root.rename(target)


def _require_apt(packages: Sequence[str]) -> None:
    if not find_program("apt-get"):
        names = ", ".join(packages)
        raise LocalError(f"missing: {names}, and apt-get is not available to install it", f"install {names}")


def _apt(command: list[str], doing: str, cwd: str | None = None) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    # Unattended upgrades can hold the lock for minutes.
    command = [command[0], "-o", f"DPkg::Lock::Timeout={LOCK_SECONDS}", *command[1:]]

    def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(arguments, capture_output=True, text=True, env=environment, cwd=cwd)

    result = run(command)
    if result.returncode != 0 and os.geteuid() == 0:
        # Usually the package list is outdated or was never downloaded.
        run(["apt-get", "update"])
        result = run(command)
    if result.returncode == 0:
        return
    lines = [line for line in result.stderr.splitlines() if line.startswith("E:")] or ["no error message"]
    raise LocalError(f"{doing} failed: {lines[-1]}", f"run `{' '.join(command)}` to see its full output")
