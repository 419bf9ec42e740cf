"""Adds to a build context what is not in an image's folder: programs and packages.

They are downloaded before the build and verified by hash, so that a Dockerfile needs no network and every
builder gives the same image.
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
# Generated folders, and files for commands that never run in a pod.
EXCLUDED = ("__pycache__", "share")
# Run in the base image: prints the Python version, machine and C library to download packages for.
PROBE = (
    "import platform, sys; "
    "print('%d.%d' % sys.version_info[:2], platform.machine(), platform.libc_ver()[1].split('.')[1])"
)
# The minor version of the oldest C library (2.17) that Linux wheels support.
OLDEST_LIBC = 17


class ImageContent(Protocol):
    """Interface of an image's content beyond its folder."""

    def digest(self) -> str:
        """Return a digest of the content; a different digest requires a new build."""

    def stage(self, context: Path, builder: ImageBuilder, progress: Callable[[str], None]) -> None:
        """Add the content to the build context."""


class NoContent:
    """No content beyond the image's folder."""

    def digest(self) -> str:
        """Return an empty digest."""
        return ""

    def stage(self, context: Path, builder: ImageBuilder, progress: Callable[[str], None]) -> None:
        """Add nothing."""


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """A folder that several images share, staged under its own name."""

    name: str

    def digest(self) -> str:
        """Return the hash of the folder."""
        return content_hash(find_resource(self.name), without=EXCLUDED)

    def stage(self, context: Path, builder: ImageBuilder, progress: Callable[[str], None]) -> None:
        """Copy the folder."""
        source = find_resource(self.name)
        shutil.copytree(source, context / source.name, ignore=shutil.ignore_patterns(*EXCLUDED))


class PauseProgram:
    """The static binary of the sandbox image."""

    def digest(self) -> str:
        """Return the hash of its source."""
        return content_hash(SOURCES / "pause")

    def stage(self, context: Path, builder: ImageBuilder, progress: Callable[[str], None]) -> None:
        """Build the binary with Go."""
        shutil.copy(build_pause(progress) / "pause", context / "pause")


class NpmPackages(NoContent):
    """The npm packages of the folder's package-lock.json."""

    def stage(self, context: Path, builder: ImageBuilder, progress: Callable[[str], None]) -> None:
        """Install the packages without running their scripts."""
        install_tools({"npm": "npm"}, progress)
        progress("installing the image's npm packages")
        run(["npm", "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=context)


class GoPrograms(NoContent):
    """The programs that the folder's go.mod lists as tools, verified by its go.sum."""

    def stage(self, context: Path, builder: ImageBuilder, progress: Callable[[str], None]) -> None:
        """Build the programs without cgo, so that they run on any base image."""
        build_go_tools(context, context / "programs", progress)


def build_go_tools(module: Path, programs: Path, progress: Callable[[str], None]) -> None:
    """Build the tools of a go.mod into the new folder `programs`."""
    go = find_go(progress)
    progress(f"building the image's programs with {go} (a minute or two)")
    programs.mkdir()
    command = [str(go), "build", "-trimpath", "-ldflags", "-s -w", "-o", f"{programs}/", "tool"]
    run(command, cwd=module, environment=go_environment())


class PythonPackages:
    """The quintet package and its dependencies, for the Python of the base image."""

    def digest(self) -> str:
        """Return the hash of the source and the locked requirements."""
        return content_hash(PACKAGE, _requirements(), without=EXCLUDED)

    def stage(self, context: Path, builder: ImageBuilder, progress: Callable[[str], None]) -> None:
        """Put the packages for the Python of the base image beside the Dockerfile."""
        version, machine, libc = builder.run(
            builder.build(context, target="base"), "python3", "-c", PROBE
        ).split()
        packages = context / "packages"
        shutil.copytree(_download_packages(version, machine, int(libc), progress), packages)
        shutil.copytree(PACKAGE, packages / "quintet", ignore=shutil.ignore_patterns(*EXCLUDED))
        # Add package metadata, as an installer does, so that scanners find quintet in the image.
        metadata = packages / f"quintet-{__version__}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: quintet\nVersion: {__version__}\n")


def _requirements() -> str:
    # Remove environment markers: pip evaluates them for the Python that runs here, not for the image's.
    return re.sub(r" ;[^\\\n]*", " ", find_resource("requirements/runtime.txt").read_text())


def _download_packages(version: str, machine: str, libc: int, progress: Callable[[str], None]) -> Path:
    """Return a folder with the locked packages for that Python; download them once."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(libc, OLDEST_LIBC - 1, -1)]
    platforms.append(f"manylinux2014_{machine}")
    key = hashlib.sha256("\0".join((_requirements(), version, *platforms)).encode()).hexdigest()[:16]
    target = cache_directory() / "images" / f"python{version}-{key}"
    with hold_lock(target.with_name(f"{target.name}.lock")):
        if not target.is_dir():
            progress(f"downloading the image's packages for Python {version}")
            with build_folder(target) as unfinished:
                _pip_install(unfinished, version, platforms)
                (unfinished / "packages").rename(target)
    return target


def _pip_install(folder: Path, version: str, platforms: list[str]) -> None:
    requirements, product = folder / "requirements.txt", folder / "packages"
    requirements.write_text(_requirements())
    pip = [*find_pip(folder), "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    locks = ["--require-hashes", "--only-binary=:all:", "--no-deps", "--requirement", str(requirements)]
    target = [f"--python-version={version}", *(f"--platform={each}" for each in platforms)]
    run([*pip, *locks, *target, "--target", str(product)])
    # Scripts of the packages start the Python that runs here, which the image does not have.
    teardown.remove_tree(product / "bin", within=folder)
