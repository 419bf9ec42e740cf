"""Builds images from a folder with a Dockerfile: with docker or podman if one works, else with buildah.

buildah uses a base image from `bases`, so that neither a registry nor a daemon is needed.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from quintet.local.build.commands import EPOCH, run
from quintet.local.build.packages import find_program, install_tools
from quintet.local.images.bases import build_base
from quintet.local.teardown import remove_build_tag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

BASE = "quintet.local/base:1"


class ImageBuilder(Protocol):
    """Interface of a program that builds images."""

    @property
    def name(self) -> str:
        """Name of the program, for messages."""

    def build(self, context: Path, *, tag: str = "", target: str = "") -> str:
        """Build a folder, or one stage of its Dockerfile; return the image id."""

    def run(self, image: str, *command: str) -> str:
        """Run a command in an image; return its standard output."""

    def save(self, image: str, tag: str, product: Path) -> None:
        """Save an image to an archive under the tag of its build, and remove the tag."""


@dataclass(frozen=True, slots=True)
class Engine:
    """docker, or podman, which has the same commands."""

    name: str
    save_options: tuple[str, ...] = ()
    build_options: tuple[str, ...] = ()

    def build(self, context: Path, *, tag: str = "", target: str = "") -> str:
        """Build on the base image of the Dockerfile."""
        options = [*self.build_options, *_option("--tag", tag), *_option("--target", target)]
        return run([self.name, "build", "--quiet", *options, str(context)]).split()[-1]

    def run(self, image: str, *command: str) -> str:
        """Run the command in a temporary container."""
        return run([self.name, "run", "--rm", "--entrypoint", command[0], image, *command[1:]])

    def save(self, image: str, tag: str, product: Path) -> None:
        """Save by tag, because an image that is saved by id has no name in the archive."""
        try:
            run([self.name, "save", *self.save_options, "--output", str(product), tag])
        finally:
            remove_build_tag(self.name, tag)


@dataclass(frozen=True, slots=True)
class Buildah:
    """buildah with a base image from `bases` and its own storage, separate from the user's."""

    storage: Path
    base: str = ""
    driver: str = "overlay"
    name: str = "buildah"

    @property
    def _command(self) -> list[str]:
        runs = str(self.storage / "run")
        return ["buildah", "--storage-driver", self.driver, "--root", str(self.storage), "--runroot", runs]

    @classmethod
    def create(
        cls, workplace: Path, packages: Sequence[str], progress: Callable[[str], None], *, bare: bool = False
    ) -> Buildah:
        """Return a builder whose base image has these packages, if any; `bare`: only these."""
        install_tools({"buildah": "buildah", "mmdebstrap": "mmdebstrap"}, progress)
        empty = cls(workplace / "storage")
        if not _succeeds(*empty._command, "info"):
            # overlayfs does not work everywhere, for example in a container; vfs copies files and is slower.
            empty = cls(workplace / "copies", driver="vfs")
        if not packages:
            return empty
        folder = workplace / "base"
        folder.mkdir()
        (folder / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
        os.link(build_base(packages, progress, bare=bare), folder / "base.tar")
        empty.build(folder, tag=BASE)
        return replace(empty, base=BASE)

    def build(self, context: Path, *, tag: str = "", target: str = "") -> str:
        """Build on the local base image; never pull one."""
        options = ["--isolation", "chroot", "--timestamp", EPOCH, "--quiet", "--pull-never"]
        options += [*_option("--tag", tag), *_option("--target", target)]
        options += _option("--build-arg", self.base and f"BASE={self.base}")
        return run([*self._command, "build", *options, str(context)]).split()[-1]

    def run(self, image: str, *command: str) -> str:
        """Run the command in a working container, which is removed with the storage."""
        container = run([*self._command, "from", "--pull-never", image]).strip()
        return run([*self._command, "run", "--isolation", "chroot", container, "--", *command])

    def save(self, image: str, tag: str, product: Path) -> None:
        """Push the image into an archive; the tag is removed with the storage."""
        run([*self._command, "push", "--quiet", image, f"oci-archive:{product}:{tag}"])


def find_builders(
    workplace: Path, packages: Sequence[str], progress: Callable[[str], None], *, bare: bool = False
) -> Iterator[ImageBuilder]:
    """Yield the builders that work on this machine, the most common first."""
    podman = Engine("podman", ("--format", "oci-archive"), ("--timestamp", EPOCH))
    for engine in (Engine("docker"), podman):
        # docker is often installed without a running daemon: use it only if it responds.
        if find_program(engine.name) and _succeeds(engine.name, "info"):
            yield engine
    yield Buildah.create(workplace, packages, progress, bare=bare)


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


def _option(option: str, value: str) -> list[str]:
    return [option, value] if value else []
