"""Finds tools that a node needs on the machine, or gets them from Debian.

Tools that conflict with nothing are installed with apt as root, which is reported. Others are only unpacked
into the cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from quintet.local.errors import LocalError
from quintet.local.paths import build_folder, cache_directory, hold_lock, name_for_platform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

# ip and nft are in sbin, which is not on every user's PATH.
SEARCH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))
LOCK_SECONDS = 300


def find_program(program: str) -> str | None:
    """Return the path of a program on PATH or in an sbin folder; None if there is none."""
    return shutil.which(program, path=SEARCH)


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
