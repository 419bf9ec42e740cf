"""Builds an image from a folder with a Dockerfile: docker or podman where one works, else buildah.

Called by `images`. For buildah a base is made by mmdebstrap from the machine's own package
sources, so that neither a registry nor a daemon is needed.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from quintet.local.errors import LocalError
from quintet.local.packages import install, which
from quintet.local.paths import cache_directory, locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

BASE = "quintet.local/base:1"
# Files in an image have no time of day, so that the same input gives the same image.
EPOCH = "0"


class Builder(Protocol):
    """A program that builds images."""

    @property
    def name(self) -> str:
        """Its name, for people."""

    def build(self, context: Path, *, tag: str = "", target: str = "") -> str:
        """Build a folder, or one stage of its Dockerfile; return the image's id."""

    def output(self, image: str, *command: str) -> str:
        """Run a command in an image; return what it printed."""

    def save(self, image: str, reference: str, product: Path) -> None:
        """Write an image to an archive, under the name it has in a cluster."""


@dataclass(frozen=True, slots=True)
class Engine:
    """docker, or podman, which takes the same commands."""

    name: str
    save_options: tuple[str, ...] = ()
    build_options: tuple[str, ...] = ()

    def build(self, context: Path, *, tag: str = "", target: str = "") -> str:
        """Build on the base that the Dockerfile names."""
        options = [*self.build_options, *_named("--tag", tag), *_named("--target", target)]
        return run([self.name, "build", "--quiet", *options, str(context)]).split()[-1]

    def output(self, image: str, *command: str) -> str:
        """Run it in a container that is gone afterwards."""
        return run([self.name, "run", "--rm", "--entrypoint", command[0], image, *command[1:]])

    def save(self, image: str, reference: str, product: Path) -> None:
        """Save by the name it was tagged with."""
        run([self.name, "save", *self.save_options, "--output", str(product), reference])


@dataclass(frozen=True, slots=True)
class Buildah:
    """buildah on a base of our own, with storage of its own: the user's is left alone."""

    storage: Path
    base: str = ""
    driver: str = "overlay"
    name: str = "buildah"

    @property
    def _command(self) -> list[str]:
        runs = str(self.storage / "run")
        return ["buildah", "--storage-driver", self.driver, "--root", str(self.storage), "--runroot", runs]

    @classmethod
    def made(
        cls, workplace: Path, packages: Sequence[str], progress: Callable[[str], None], *, bare: bool = False
    ) -> Buildah:
        """With a base that has these packages, if there are any; `bare`: these alone."""
        install({"buildah": "buildah", "mmdebstrap": "mmdebstrap"}, progress)
        empty = cls(workplace / "storage")
        if subprocess.run([*empty._command, "info"], capture_output=True).returncode != 0:
            # Overlays do not work everywhere, as in a container; copies do, and take their time.
            empty = cls(workplace / "copies", driver="vfs")
        if not packages:
            return empty
        folder = workplace / "base"
        folder.mkdir()
        (folder / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
        os.link(_base(packages, progress, bare=bare), folder / "base.tar")
        empty.build(folder, tag=BASE)
        return replace(empty, base=BASE)

    def build(self, context: Path, *, tag: str = "", target: str = "") -> str:
        """Build on our base, without asking anybody for another."""
        options = ["--isolation", "chroot", "--timestamp", EPOCH, "--quiet", "--pull-never"]
        options += [*_named("--tag", tag), *_named("--target", target)]
        options += _named("--build-arg", self.base and f"BASE={self.base}")
        return run([*self._command, "build", *options, str(context)]).split()[-1]

    def output(self, image: str, *command: str) -> str:
        """Run it in a working container, which goes away with our storage."""
        container = run([*self._command, "from", "--pull-never", image]).strip()
        return run([*self._command, "run", "--isolation", "chroot", container, "--", *command])

    def save(self, image: str, reference: str, product: Path) -> None:
        """Push it into an archive."""
        run([*self._command, "push", "--quiet", image, f"oci-archive:{product}:{reference}"])


def builders(
    workplace: Path, packages: Sequence[str], progress: Callable[[str], None], *, bare: bool = False
) -> Iterator[Builder]:
    """Give what can build here, one after the other, the most usual first."""
    podman = Engine("podman", ("--format", "oci-archive"), ("--timestamp", EPOCH))
    for engine in (Engine("docker"), podman):
        # A docker command without a daemon is common: only one that answers counts.
        if which(engine.name) and subprocess.run([engine.name, "info"], capture_output=True).returncode == 0:
            yield engine
    yield Buildah.made(workplace, packages, progress, bare=bare)


def run(command: list[str], cwd: Path | None = None, environment: Mapping[str, str] = os.environ) -> str:
    """Run a command; return what it printed, or raise its own reason as one line."""
    settings = {**environment, "LC_ALL": "C.UTF-8", "SOURCE_DATE_EPOCH": EPOCH}
    answer = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=settings)
    if answer.returncode == 0:
        return answer.stdout
    said = [line.strip() for line in (answer.stderr + answer.stdout).splitlines() if line.strip()]
    if any("no space left" in line.lower() for line in said):
        raise LocalError("the disk became full while building an image", "free some space and run it again")
    telling = [line for line in said if "error" in line.lower() or line.startswith("E:")]
    reason = (telling or said or ["it gave no reason"])[-1]
    raise LocalError(
        f"{' '.join(command[:2])} failed: {reason[:300]}", f"run `{' '.join(command)}` to see all of it"
    )


def _named(option: str, value: str) -> list[str]:
    return [option, value] if value else []


def _base(packages: Sequence[str], progress: Callable[[str], None], *, bare: bool) -> Path:
    """Return a file system of the machine's own Debian release with these packages."""
    release = _release()
    # `extract` unpacks packages and what they depend on, and runs no script of theirs.
    variant = "extract" if bare else "minbase"
    prefix = "bare" if bare else "base"
    archive = cache_directory() / "images" / f"{prefix}-{release}-{'-'.join(packages)}.tar"
    with locked(archive.with_suffix(".lock")):
        if not archive.exists():
            progress(f"making a base image of Debian {release} with {', '.join(packages)} (half a minute)")
            with tempfile.TemporaryDirectory(dir=archive.parent, suffix=".unfinished") as unfinished:
                sources = Path(unfinished) / "sources.list"
                sources.write_text(_sources(release))
                product = Path(unfinished) / "base.tar"
                command = ["mmdebstrap", f"--variant={variant}", f"--include={','.join(packages)}"]
                run([*command, release, str(product), str(sources)])
                product.rename(archive)
    return archive


def _release() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    names = (line.partition("=")[2].strip('"') for line in lines if line.startswith("VERSION_CODENAME="))
    found = next(names, "")
    if not found:
        raise LocalError(
            "this is no Debian release with a code name", "install docker or podman to build images"
        )
    return found


def _sources(release: str) -> str:
    """Return the machine's own package sources for its release, without what others added to it."""
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    command = ["apt-get", "indextargets", "--format", form, "Created-By: Packages"]
    wanted = {release, f"{release}-updates", f"{release}-security"}
    targets = (line.split() for line in dict.fromkeys(run(command).splitlines()))
    return "".join(f"deb {uri} {suite} {part}\n" for uri, suite, part in targets if suite in wanted)
