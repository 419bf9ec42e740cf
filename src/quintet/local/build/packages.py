"""Gets the programs a node needs from the machine or from Debian, without changing the machine.

Called by `node` and `images`. The container runtime is taken from PATH or unpacked into the
cache: installing Debian's containerd would remove Docker's. Plain tools nobody competes
for are installed, when we are root, and that is said.
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

# sbin holds ip and nft, and is not on everybody's PATH.
SEARCH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))
CONTAINERD_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr")
# The oldest that a node is tested with. kubelet 1.38 will need containerd 2.0.
MINIMUM_CONTAINERD = (1, 6)
MINIMUM_RUNC = (1, 1)
RUNTIME_PACKAGES = ("containerd", "runc")
PLUGINS = ("ptp", "host-local", "loopback")
PLUGIN_PACKAGE = "containernetworking-plugins"
LOCK_SECONDS = 300
PLUGIN_PLACES = ("/usr/lib/cni", "/opt/cni/bin")


@dataclass(frozen=True, slots=True)
class ContainerRuntime:
    """Where the container runtime and the network plugins are."""

    programs: Path
    runc: Path
    plugins: Path


def find_program(program: str) -> str | None:
    """Find a program, in sbin too."""
    return shutil.which(program, path=SEARCH)


def find_container_runtime(progress: Callable[[str], None]) -> ContainerRuntime:
    """Return a complete container runtime: the machine's own if it is new enough, else one of Debian's."""
    places = map(Path, PLUGIN_PLACES)
    plugins = next((place for place in places if all((place / each).exists() for each in PLUGINS)), None)
    programs, runc = _own_containerd(progress), _own_runc(progress)
    if programs is None or runc is None:
        root = unpack_packages(RUNTIME_PACKAGES, progress)
        programs = programs or root / "usr/bin"
        # Debian has had runc in either place.
        runc = runc or next(filter(Path.exists, (root / "usr/sbin/runc", root / "usr/bin/runc")))
    if plugins is None:
        plugins = unpack_packages((PLUGIN_PACKAGE,), progress) / "usr/lib/cni"
    return ContainerRuntime(programs, runc, plugins)


def _own_containerd(progress: Callable[[str], None]) -> Path | None:
    """Return the folder of the machine's containerd, whose shim and client must be beside it."""
    found = find_program("containerd")
    if found is None:
        return None
    # A link in /usr/local/bin to where a package was unpacked is common.
    homes = (Path(found).parent, Path(found).resolve().parent)
    complete = (home for home in homes if all((home / each).exists() for each in CONTAINERD_PROGRAMS))
    home = next(complete, None)
    return home if home and _new_enough(home / "containerd", MINIMUM_CONTAINERD, progress) else None


def _own_runc(progress: Callable[[str], None]) -> Path | None:
    found = find_program("runc")
    return Path(found) if found and _new_enough(Path(found), MINIMUM_RUNC, progress) else None


def _new_enough(program: Path, minimum: tuple[int, int], progress: Callable[[str], None]) -> bool:
    wanted = ".".join(map(str, minimum))
    found = read_version(program)
    if found is None or found < minimum:
        said = ".".join(map(str, found)) if found else "of an unknown version"
        progress(f"{program} is {said}, a node needs {wanted} or newer: using Debian's")
        return False
    return True


def read_version(program: Path) -> tuple[int, int] | None:
    """Return major and minor version of containerd or runc; None if it does not run or does not say."""
    try:
        answer = subprocess.run([str(program), "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\bv?(\d+)\.(\d+)\.\d+", answer.stdout)
    return (int(found[1]), int(found[2])) if found and answer.returncode == 0 else None


def unpack_packages(packages: Sequence[str], progress: Callable[[str], None]) -> Path:
    """Download Debian packages and unpack them into the cache, without installing them."""
    target = cache_directory() / name_for_platform("debian-" + "-".join(packages))
    with hold_lock(target.with_suffix(".lock")):
        if not target.is_dir():
            _require_apt(packages)
            progress(f"unpacking {', '.join(packages)} into {target} (not installed)")
            _download(packages, target)
    return target


def install_tools(tools: dict[str, str], progress: Callable[[str], None]) -> None:
    """Install the packages of those tools (program → package) that are missing."""
    missing = sorted({package for program, package in tools.items() if not find_program(program)})
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
    with build_folder(target) as unfinished:
        # apt fetches as a user of its own, who must be able to write here.
        unfinished.chmod(0o777)
        _apt(["apt-get", "download", *packages], f"downloading {', '.join(packages)}", cwd=str(unfinished))
        root = unfinished / "root"
        for archive in sorted(unfinished.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(archive), str(root)], check=True)
        root.rename(target)


def _require_apt(packages: Sequence[str]) -> None:
    if not find_program("apt-get"):
        names = ", ".join(packages)
        raise LocalError(f"missing: {names}, and there is no apt-get here to get it with", f"install {names}")


def _apt(command: list[str], doing: str, cwd: str | None = None) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    # Unattended upgrades hold the lock for minutes.
    command = [command[0], "-o", f"DPkg::Lock::Timeout={LOCK_SECONDS}", *command[1:]]

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
