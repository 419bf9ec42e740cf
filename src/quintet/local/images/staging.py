"""Puts into a build context what does not come from an image's folder: programs and packages.

Called by `images`. They are fetched here, locked by their hashes, and not during the build:
a Dockerfile then needs no network, and builds the same with every builder.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from quintet import __version__
from quintet.local import teardown
from quintet.local.build.commands import run
from quintet.local.build.packages import install_tools
from quintet.local.build.pip import find_pip
from quintet.local.build.programs import build_pause, content_hash, go_environment
from quintet.local.build.toolchain import find_go
from quintet.local.build.versions import SOURCES
from quintet.local.paths import build_folder, cache_directory, find_resource, hold_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from quintet.local.images.builders import ImageBuilder

PACKAGE = Path(__file__).parents[2]
# Made from the source, or shipped for commands that never run in a pod.
LEFT_OUT = ("__pycache__", "share")
# Asked of the base: for which Python, machine and C library packages are wanted.
PROBE = (
    "import platform, sys; "
    "print('%d.%d' % sys.version_info[:2], platform.machine(), platform.libc_ver()[1].split('.')[1])"
)
# The oldest C library, 2.17, that packages for Linux are still made for.
OLDEST_LIBC = 17


class ImageContent(Protocol):
    """What an image is made of besides its folder."""

    def digest(self) -> str:
        """Name it: another digest is another image."""

    def stage(self, context: Path, builder: ImageBuilder, progress: Callable[[str], None]) -> None:
        """Put it into the build context."""


class NoContent:
    """The folder is all there is."""

    def digest(self) -> str:
        """Nothing to name."""
        return ""

    def stage(self, context: Path, builder: ImageBuilder, progress: Callable[[str], None]) -> None:
        """Nothing to add."""


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """A folder of ours that several images share, under its own last name."""

    name: str

    def digest(self) -> str:
        """By what is in it."""
        return content_hash(find_resource(self.name), without=LEFT_OUT)

    def stage(self, context: Path, builder: ImageBuilder, progress: Callable[[str], None]) -> None:
        """Copy it."""
        source = find_resource(self.name)
        shutil.copytree(source, context / source.name, ignore=shutil.ignore_patterns(*LEFT_OUT))


class PauseProgram:
    """The static program of the sandbox image."""

    def digest(self) -> str:
        """By its source."""
        return content_hash(SOURCES / "pause")

    def stage(self, context: Path, builder: ImageBuilder, progress: Callable[[str], None]) -> None:
        """Build it with Go."""
        shutil.copy(build_pause(progress) / "pause", context / "pause")


class NpmPackages(NoContent):
    """The packages that the folder's own package-lock.json names."""

    def stage(self, context: Path, builder: ImageBuilder, progress: Callable[[str], None]) -> None:
        """Install them; no script of theirs is run."""
        install_tools({"npm": "npm"}, progress)
        progress("installing the image's npm packages")
        run(["npm", "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=context)


class GoPrograms(NoContent):
    """The programs that the folder's own go.mod names as its tools, locked by its go.sum."""

    def stage(self, context: Path, builder: ImageBuilder, progress: Callable[[str], None]) -> None:
        """Build them without C, so that they run on any base."""
        build_go_tools(context, context / "programs", progress)


def build_go_tools(module: Path, programs: Path, progress: Callable[[str], None]) -> None:
    """Build the tools that a go.mod names into a new folder."""
    go = find_go(progress)
    progress(f"building the image's programs with {go} (a minute or two)")
    programs.mkdir()
    command = [str(go), "build", "-trimpath", "-ldflags", "-s -w", "-o", f"{programs}/", "tool"]
    run(command, cwd=module, environment=go_environment())


class PythonPackages:
    """Our own package and what it needs to run, for the Python of the image's base."""

    def digest(self) -> str:
        """By the source and the locked requirements."""
        return content_hash(PACKAGE, _requirements(), without=LEFT_OUT)

    def stage(self, context: Path, builder: ImageBuilder, progress: Callable[[str], None]) -> None:
        """Ask the base for its Python, then lay the packages beside the Dockerfile."""
        version, machine, libc = builder.run(
            builder.build(context, target="base"), "python3", "-c", PROBE
        ).split()
        packages = context / "packages"
        shutil.copytree(_installed(version, machine, int(libc), progress), packages)
        shutil.copytree(PACKAGE, packages / "quintet", ignore=shutil.ignore_patterns(*LEFT_OUT))
        # As an installer would: whoever asks what is in the image finds us beside the others.
        described = packages / f"quintet-{__version__}.dist-info"
        described.mkdir()
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: quintet\nVersion: {__version__}\n")


def _requirements() -> str:
    # Conditions would be decided for the Python that runs here. A package too many does no harm.
    return re.sub(r" ;[^\\\n]*", " ", find_resource("requirements/runtime.txt").read_text())


def _installed(version: str, machine: str, libc: int, progress: Callable[[str], None]) -> Path:
    """Return a folder of the locked packages for that Python, fetched once."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(libc, OLDEST_LIBC - 1, -1)]
    platforms.append(f"manylinux2014_{machine}")
    named = hashlib.sha256("\0".join((_requirements(), version, *platforms)).encode()).hexdigest()[:16]
    target = cache_directory() / "images" / f"python{version}-{named}"
    with hold_lock(target.with_name(f"{target.name}.lock")):
        if not target.is_dir():
            progress(f"fetching the image's packages for Python {version}")
            with build_folder(target) as unfinished:
                _fetch(unfinished, version, platforms)
                (unfinished / "packages").rename(target)
    return target


def _fetch(place: Path, version: str, platforms: list[str]) -> None:
    requirements, product = place / "requirements.txt", place / "packages"
    requirements.write_text(_requirements())
    pip = [*find_pip(place), "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    locks = ["--require-hashes", "--only-binary=:all:", "--no-deps", "--requirement", str(requirements)]
    fits = [f"--python-version={version}", *(f"--platform={each}" for each in platforms)]
    run([*pip, *locks, *fits, "--target", str(product)])
    # Commands of the packages, which name the Python that runs here.
    teardown.remove_tree(product / "bin", within=place)
