"""The container images of a node's cluster, built when needed and kept in the cache as archives.

Called by `node` and by `make images`. `staging` fills a build context with what does not come
from the checkout, `builders` makes an image of it; no registry and no daemon are needed.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quintet.imagenames import JSON_SERVER, NATS, QUINTET
from quintet.local import bases, build, staging, teardown
from quintet.local.archives import rewrite
from quintet.local.builders import Builder, builders
from quintet.local.errors import LocalError, explain_os_error
from quintet.local.paths import cache_directory, for_this_machine, locked, shipped, workplace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAUSE = "quintet.local/pause:1"
ECHO = "quintet.local/checkups/echo:1"
ECHO_CONFIGMAP = "quintet.local/checkups/echo-configmap:1"
CLUSTER_BASICS = "quintet.local/checkups/cluster-basics:1"
# Every change of the operator's source makes another archive: the last few serve other checkouts.
KEPT = 3
ANY_KEY = "[0-9a-f]" * 16
# What somebody who builds by hand has put beside a Dockerfile.
BY_HAND = ("lib", "node_modules", "packages", "programs")


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its name in the cluster, the folder of its Dockerfile, and what it is made of."""

    reference: str
    folder: str
    # Of Debian, for a base that is made here.
    packages: tuple[str, ...] = ()
    content: staging.Content = field(default_factory=staging.Nothing)
    # A base of these packages alone, unpacked: a tenth of the size, and no package manager in it.
    bare: bool = False

    @property
    def base(self) -> str:
        """Names what its base is made of."""
        return bases.recipe(self.packages, bare=self.bare) if self.packages else ""

    @property
    def kept_as(self) -> str:
        """How the names of its archives begin."""
        return self.folder.replace("/", "-")

    @property
    def directory(self) -> Path:
        """Where its Dockerfile is."""
        return shipped(f"images/{self.folder}")


_LIBRARY = staging.Folder("images/checkups/lib")
# What a person who looks around in a container finds, and what says which Debian it is.
_TOOLS = ("base-files", "coreutils", "dash", "libc-bin")
_PYTHON = (*_TOOLS, "python3")

IMAGES = (
    Image(PAUSE, "pause", content=staging.Pause()),
    Image(JSON_SERVER, "json-server", (*_TOOLS, "nodejs"), staging.Npm(), bare=True),
    Image(NATS, "nats", _TOOLS, staging.Go(), bare=True),
    Image(QUINTET, "quintet", (*_PYTHON, "ca-certificates"), staging.Python(), bare=True),
    Image(ECHO, "checkups/echo", (*_TOOLS, "mawk", "openssl"), _LIBRARY, bare=True),
    Image(ECHO_CONFIGMAP, "checkups/echo-configmap", _PYTHON, _LIBRARY, bare=True),
    Image(CLUSTER_BASICS, "checkups/cluster-basics", _PYTHON, _LIBRARY, bare=True),
)


def archives(progress: Callable[[str], None]) -> dict[str, Path]:
    """Return the archive of every image by its reference, building those that are not in the cache."""
    try:
        return {image.reference: archive(image, progress) for image in IMAGES}
    except OSError as error:
        raise explain_os_error(error) from error


def archive(image: Image, progress: Callable[[str], None]) -> Path:
    """Return the archive of one image, building it if it is not in the cache."""
    key = build.content_hash(
        image.directory, image.reference, image.base, image.content.digest(), without=BY_HAND
    )
    # The reference and its lock are the same on every machine; the archive is not.
    kept = cache_directory() / "images" / f"{for_this_machine(f'{image.kept_as}-{key}')}.tar"
    with suppress(FileNotFoundError):
        os.utime(kept)
        return kept
    # One build of an image at a time: the others then find what it leaves, or remove what it left unfinished.
    with locked(kept.with_name(f"{image.kept_as}.lock")):
        if not kept.exists():
            with workplace(kept, leftovers=f"{image.kept_as}-{ANY_KEY}*.tar") as unfinished:
                product = unfinished / "image.tar"
                _build(image, key, unfinished, product, progress)
                product.rename(kept)
        os.utime(kept)
        _forget(kept, image)
    return kept


def _build(image: Image, key: str, workplace: Path, product: Path, progress: Callable[[str], None]) -> None:
    # Docker and podman have one set of tags for all users and checkouts: with the tag of its reference, an
    # image that somebody else builds at the same time could be saved in place of ours.
    tag, version = f"build-{key}-{secrets.token_hex(4)}", image.reference.rpartition(":")[2]
    failures = []
    for builder in builders(workplace, image.packages, progress, bare=image.bare):
        progress(f"building image {image.reference} with {builder.name}")
        try:
            saved = _build_with(builder, image, tag, workplace / builder.name, progress)
            rewrite(saved, product, old_tag=tag, new_tag=version)
            return
        except LocalError as error:
            failures.append(error)
            progress(f"  {error.message}")
    raise failures[-1]


def _build_with(
    builder: Builder, image: Image, tag: str, context: Path, progress: Callable[[str], None]
) -> Path:
    shutil.copytree(image.directory, context, ignore=shutil.ignore_patterns(*BY_HAND))
    image.content.stage(context, builder, progress)
    _readable(context)
    saved = context.with_name(f"{context.name}.tar")
    reference = f"{image.reference.rpartition(':')[0]}:{tag}"
    builder.save(builder.build(context, tag=reference), reference, saved)
    return saved


def _readable(context: Path) -> None:
    """Let everybody read it: the image runs as nobody in particular, whatever our umask is."""
    for path in context.rglob("*"):
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runs else 0o644)


def _forget(archive: Path, image: Image) -> None:
    """Remove archives of the image that were not used of late."""
    with suppress(FileNotFoundError):  # somebody else does the same
        found = archive.parent.glob(f"{for_this_machine(f'{image.kept_as}-{ANY_KEY}')}.tar")
        for path in sorted(found, key=lambda each: each.stat().st_mtime, reverse=True)[KEPT:]:
            teardown.remove_file(path, within=archive.parent)
