"""Gets the programs a node needs from the machine or from Debian, without changing the machine.

Called by `node` and `images`. The container runtime is taken from PATH or unpacked into the
cache: installing Debian's containerd would remove Docker's. Plain tools nobody competes
for are installed, when we are root, and that is said.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quintet.local.errors import LocalError
from quintet.local.paths import cache_directory, locked, workplace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# sbin holds ip and nft, and is not on everybody's PATH.
SEARCH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))
RUNTIME_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc")
RUNTIME_PACKAGES = ("containerd", "runc")
PLUGINS = ("ptp", "host-local", "loopback")
PLUGIN_PACKAGE = "containernetworking-plugins"
PLUGIN_PLACES = ("/usr/lib/cni", "/opt/cni/bin")


@dataclass(frozen=True, slots=True)
class Runtime:
    """Where the container runtime and the network plugins are."""

    programs: Path
    plugins: Path


def which(program: str) -> str | None:
    """Find a program, in sbin too."""
    return shutil.which(program, path=SEARCH)


def container_runtime(progress: Callable[[str], None]) -> Runtime:
    """Return a complete container runtime: the machine's own, or one unpacked into the cache."""
    homes = {Path(found).parent for each in RUNTIME_PROGRAMS if (found := which(each))}
    complete = (home for home in homes if all((home / each).exists() for each in RUNTIME_PROGRAMS))
    programs = next(complete, None)
    places = map(Path, PLUGIN_PLACES)
    plugins = next((place for place in places if all((place / each).exists() for each in PLUGINS)), None)
    if programs is None:
        programs = unpacked(RUNTIME_PACKAGES, progress) / "usr/bin"
        # Debian puts runc apart from the others.
        runc = programs.parent / "sbin/runc"
        if runc.exists() and not (programs / "runc").exists():
            (programs / "runc").symlink_to("../sbin/runc")
    if plugins is None:
        plugins = unpacked((PLUGIN_PACKAGE,), progress) / "usr/lib/cni"
    return Runtime(programs, plugins)


def unpacked(packages: Sequence[str], progress: Callable[[str], None]) -> Path:
    """Download Debian packages and unpack them into the cache, without installing them."""
    target = cache_directory() / ("debian-" + "-".join(packages))
    with locked(target.with_suffix(".lock")):
        if not target.is_dir():
            _require_apt(packages)
            progress(f"unpacking {', '.join(packages)} into {target} (not installed)")
            _download(packages, target)
    return target


def install(tools: dict[str, str], progress: Callable[[str], None]) -> None:
    """Install the packages of those tools (program → package) that are missing."""
    missing = sorted({package for program, package in tools.items() if not which(program)})
    if not missing:
        return
    _require_apt(missing)
    if os.geteuid() != 0:
        raise LocalError(f"missing: {', '.join(missing)}", f"apt-get install {' '.join(missing)} (as root)")
    progress(f"installing with apt: {', '.join(missing)}")
    # --no-remove: rather fail than take something of the user's away.
    command = ["apt-get", "install", "--yes", "--no-install-recommends", "--no-remove", *missing]
    _apt(command, f"installing {', '.join(missing)}")


def _download(packages: Sequence[str], target: Path) -> None:
    with workplace(target) as unfinished:
        # apt fetches as a user of its own, who must be able to write here.
        unfinished.chmod(0o777)
        _apt(["apt-get", "download", *packages], f"downloading {', '.join(packages)}", cwd=str(unfinished))
        root = unfinished / "root"
        for archive in sorted(unfinished.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(archive), str(root)], check=True)
        root.rename(target)


def _require_apt(packages: Sequence[str]) -> None:
    if not which("apt-get"):
        names = ", ".join(packages)
        raise LocalError(f"missing: {names}, and there is no apt-get here to get it with", f"install {names}")


def _apt(command: list[str], doing: str, cwd: str | None = None) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}

    def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(arguments, capture_output=True, text=True, env=environment, cwd=cwd)

    answer = run(command)
    if answer.returncode != 0 and os.geteuid() == 0:
        # The usual reason is a package list that is old, or was never fetched.
        run(["apt-get", "update"])
        answer = run(command)
    if answer.returncode == 0:
        return
    lines = [line for line in answer.stderr.splitlines() if line.startswith("E:")] or ["apt gave no reason"]
    raise LocalError(f"{doing} failed: {lines[-1]}", f"run `{' '.join(command)}` to see all of it")
