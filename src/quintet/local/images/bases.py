"""Builds base images from Debian packages of the machine's own release, without a registry.

The same packages give the same bytes: mmdebstrap clamps timestamps, and `images/base/finish` removes traces
of the build machine. The versions are those of the machine's package sources.
"""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from quintet.local.build.commands import run
from quintet.local.errors import LocalError
from quintet.local.paths import build_folder, cache_directory, find_resource, hold_lock, name_for_platform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def recipe_hash(packages: Sequence[str], *, bare: bool) -> str:
    """Return a hash of everything that determines a base image."""
    words = ("bare" if bare else "usual", *packages, _finish().read_text(encoding="utf-8"))
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]


def build_base(packages: Sequence[str], progress: Callable[[str], None], *, bare: bool) -> Path:
    """Build a root file system with these packages of the machine's Debian release; return its archive.

    With `bare`, it contains only these packages and their dependencies.
    """
    name = debian_release()
    # `extract` unpacks packages and their dependencies without running their scripts.
    variant, stage = ("extract", "extract") if bare else ("minbase", "customize")
    cached = name_for_platform(f"base-{name}-{recipe_hash(packages, bare=bare)}")
    archive = cache_directory() / "images" / f"{cached}.tar"
    with hold_lock(archive.with_suffix(".lock")):
        if not archive.exists():
            progress(f"building a base image of Debian {name} with {', '.join(packages)} (half a minute)")
            with build_folder(archive) as unfinished:
                sources = unfinished / "sources.list"
                sources.write_text(_sources(name))
                product = unfinished / "base.tar"
                hook = f'--{stage}-hook=sh {shlex.quote(str(_finish()))} "$1"'
                command = ["mmdebstrap", f"--variant={variant}", f"--include={','.join(packages)}", hook]
                run([*command, name, str(product), str(sources)])
                product.rename(archive)
    return archive


def _finish() -> Path:
    return find_resource("images/base/finish")


def debian_release() -> str:
    """Return the code name of the machine's own Debian release."""
    lines = Path("/etc/os-release").read_text().splitlines()
    names = (line.partition("=")[2].strip('"') for line in lines if line.startswith("VERSION_CODENAME="))
    found = next(names, "")
    if not found:
        raise LocalError(
            "this is not a Debian release with a code name", "install docker or podman to build images"
        )
    return found


def _sources(name: str) -> str:
    """Return the machine's package sources of its Debian release, without third-party sources."""
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    command = ["apt-get", "indextargets", "--format", form, "Created-By: Packages"]
    suites = {name, f"{name}-updates", f"{name}-security"}
    targets = (line.split() for line in dict.fromkeys(run(command).splitlines()))
    return "".join(f"deb {uri} {suite} {part}\n" for uri, suite, part in targets if suite in suites)
