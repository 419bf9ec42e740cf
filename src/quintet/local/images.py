"""Builds the container images of a node's cluster and keeps them in the cache as archives.

Called by `node` and by `make images`. Built with docker or podman where one works, else with
buildah on a base made by mmdebstrap from the machine's own package sources: no registry and
no daemon are needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quintet.local import build
from quintet.local.errors import LocalError, explain_os_error
from quintet.local.packages import install, which
from quintet.local.paths import cache_directory, locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAUSE = "quintet.local/pause:1"
JSON_SERVER = "quintet.local/json-server:0.17.4"
BASE = "quintet.local/base:1"
# Programs a base image has beyond Debian's smallest.
BASE_PACKAGES = "ca-certificates,nodejs"


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its name in the cluster and the folder of its Dockerfile."""

    reference: str
    folder: str

    @property
    def directory(self) -> Path:
        """Where its Dockerfile is: in the package when installed, else in the checkout."""
        packaged = Path(__file__).parent / "share/images" / self.folder
        return packaged if packaged.is_dir() else Path(__file__).parents[3] / "images" / self.folder


IMAGES = (Image(PAUSE, "pause"), Image(JSON_SERVER, "json-server"))


def archives(progress: Callable[[str], None]) -> list[Path]:
    """Return the archive of every image, building those that are not in the cache."""
    try:
        return [_archive(image, progress) for image in IMAGES]
    except OSError as error:
        raise explain_os_error(error) from error


def _archive(image: Image, progress: Callable[[str], None]) -> Path:
    sources = (build.content_hash(build.MODULE / "pause"),) if image.reference == PAUSE else ()
    key = build.content_hash(image.directory, image.reference, *sources, without="node_modules")
    archive = cache_directory() / "images" / f"{image.folder}-{key}.tar"
    with locked(archive.with_suffix(".lock")):
        if not archive.exists():
            with tempfile.TemporaryDirectory(dir=archive.parent, suffix=".unfinished") as unfinished:
                context = Path(unfinished) / "context"
                shutil.copytree(image.directory, context, ignore=shutil.ignore_patterns("node_modules"))
                _stage(context, progress)
                product = Path(unfinished) / "image.tar"
                _build(image, context, product, progress)
                product.rename(archive)
    return archive


def _stage(context: Path, progress: Callable[[str], None]) -> None:
    """Put into the build context what does not come from the checkout."""
    if (context / "package-lock.json").exists():
        install({"npm": "npm"}, progress)
        progress("installing the image's npm packages")
        _run(["npm", "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=context)
    elif "COPY pause" in (context / "Dockerfile").read_text():
        shutil.copy(build.pause(progress) / "pause", context / "pause")


def _build(image: Image, context: Path, product: Path, progress: Callable[[str], None]) -> None:
    failures = []
    for name, builder in _builders():
        progress(f"building image {image.reference} with {name}")
        try:
            builder(image, context, product, progress)
            return
        except LocalError as error:
            failures.append(error)
            progress(f"  {error.message}")
    raise failures[-1]


def _builders() -> Iterator[tuple[str, Callable[[Image, Path, Path, Callable[[str], None]], None]]]:
    # A docker command without a daemon is common: only one that answers counts.
    for name, builder in (("docker", _docker), ("podman", _podman)):
        if which(name) and subprocess.run([name, "info"], capture_output=True).returncode == 0:
            yield name, builder
    yield "buildah", _buildah


def _docker(image: Image, context: Path, product: Path, _: Callable[[str], None]) -> None:
    _run(["docker", "build", "--quiet", "--tag", image.reference, str(context)])
    _run(["docker", "save", "--output", str(product), image.reference])


def _podman(image: Image, context: Path, product: Path, _: Callable[[str], None]) -> None:
    _run(["podman", "build", "--quiet", "--tag", image.reference, str(context)])
    _run(["podman", "save", "--format", "oci-archive", "--output", str(product), image.reference])


def _buildah(image: Image, context: Path, product: Path, progress: Callable[[str], None]) -> None:
    install({"buildah": "buildah", "mmdebstrap": "mmdebstrap"}, progress)
    # Storage of its own, in the folder that is removed afterwards: the user's buildah is left alone.
    storage = product.parent / "storage"
    buildah = [
        "buildah",
        "--storage-driver",
        "vfs",
        "--root",
        str(storage),
        "--runroot",
        str(storage / "run"),
    ]
    make = [*buildah, "build", "--isolation", "chroot", "--quiet"]
    if "ARG BASE" in (context / "Dockerfile").read_text():
        folder = product.parent / "base"
        folder.mkdir()
        (folder / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
        shutil.copy(_base(progress), folder / "base.tar")
        _run([*make, "--tag", BASE, str(folder)])
        make += ["--build-arg", f"BASE={BASE}", "--pull-never"]
    _run([*make, "--tag", image.reference, str(context)])
    _run([*buildah, "push", "--quiet", image.reference, f"oci-archive:{product}:{image.reference}"])


def _base(progress: Callable[[str], None]) -> Path:
    """Return a file system of the machine's own Debian release with the base packages."""
    release = _release()
    archive = cache_directory() / "images" / f"base-{release}-{BASE_PACKAGES.replace(',', '-')}.tar"
    with locked(archive.with_suffix(".lock")):
        if not archive.exists():
            progress(f"making a base image of Debian {release} (half a minute)")
            with tempfile.TemporaryDirectory(dir=archive.parent, suffix=".unfinished") as unfinished:
                sources = Path(unfinished) / "sources.list"
                sources.write_text(_sources(release))
                product = Path(unfinished) / "base.tar"
                command = ["mmdebstrap", "--variant=minbase", f"--include={BASE_PACKAGES}"]
                _run([*command, release, str(product), str(sources)])
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
    targets = (line.split() for line in dict.fromkeys(_run(command).splitlines()))
    return "".join(f"deb {uri} {suite} {part}\n" for uri, suite, part in targets if suite in wanted)


def _run(command: list[str], cwd: Path | None = None) -> str:
    answer = subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=os.environ | {"LC_ALL": "C.UTF-8"}
    )
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
