"""The container images of a node's cluster, built when needed and kept in the cache as archives.

Called by `node` and by `make images`. `staging` fills a build context with what does not come
from the checkout, `builders` makes an image of it; no registry and no daemon are needed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from quintet import __version__
from quintet.local import build, staging
from quintet.local.builders import Builder, builders
from quintet.local.errors import LocalError, explain_os_error
from quintet.local.paths import cache_directory, locked, shipped

if TYPE_CHECKING:
    from collections.abc import Callable

PAUSE = "quintet.local/pause:1"
JSON_SERVER = "quintet.local/json-server:0.17.4"
QUINTET = f"quintet.local/quintet:{__version__}"
# Every change of the operator's source makes another archive: the last few serve other checkouts.
KEPT = 3
# What somebody who builds by hand has put beside a Dockerfile.
BY_HAND = ("node_modules", "packages")


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its name in the cluster, the folder of its Dockerfile, and what it is made of."""

    reference: str
    folder: str
    # Of Debian, for a base that is made here.
    packages: tuple[str, ...] = ()
    content: staging.Content = field(default_factory=staging.Nothing)

    @property
    def directory(self) -> Path:
        """Where its Dockerfile is."""
        return shipped(f"images/{self.folder}")


IMAGES = (
    Image(PAUSE, "pause", content=staging.Pause()),
    Image(JSON_SERVER, "json-server", ("ca-certificates", "nodejs"), staging.Npm()),
    Image(QUINTET, "quintet", ("python3",), staging.Python()),
)


def archives(progress: Callable[[str], None]) -> list[Path]:
    """Return the archive of every image, building those that are not in the cache."""
    try:
        return [_archive(image, progress) for image in IMAGES]
    except OSError as error:
        raise explain_os_error(error) from error


def _archive(image: Image, progress: Callable[[str], None]) -> Path:
    key = build.content_hash(
        image.directory, image.reference, *image.packages, image.content.digest(), without=BY_HAND
    )
    archive = cache_directory() / "images" / f"{image.folder}-{key}.tar"
    with locked(archive.with_suffix(".lock")):
        if not archive.exists():
            with tempfile.TemporaryDirectory(dir=archive.parent, suffix=".unfinished") as unfinished:
                product = Path(unfinished) / "image.tar"
                _build(image, Path(unfinished), product, progress)
                product.rename(archive)
        os.utime(archive)
    _forget(archive, image)
    return archive


def _build(image: Image, workplace: Path, product: Path, progress: Callable[[str], None]) -> None:
    failures = []
    for builder in builders(workplace, image.packages, progress):
        progress(f"building image {image.reference} with {builder.name}")
        try:
            _build_with(builder, image, workplace / builder.name, product, progress)
            return
        except LocalError as error:
            failures.append(error)
            progress(f"  {error.message}")
    raise failures[-1]


def _build_with(
    builder: Builder, image: Image, context: Path, product: Path, progress: Callable[[str], None]
) -> None:
    shutil.copytree(image.directory, context, ignore=shutil.ignore_patterns(*BY_HAND))
    image.content.stage(context, builder, progress)
    _readable(context)
    builder.save(builder.build(context, tag=image.reference), image.reference, product)


def _readable(context: Path) -> None:
    """Let everybody read it: the image runs as nobody in particular, whatever our umask is."""
    for path in context.rglob("*"):
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runs else 0o644)


def _forget(archive: Path, image: Image) -> None:
    """Remove archives of the image that were not used of late."""
    with suppress(FileNotFoundError):  # somebody else does the same
        found = archive.parent.glob(f"{image.folder}-{'[0-9a-f]' * 16}.tar")
        for path in sorted(found, key=lambda each: each.stat().st_mtime, reverse=True)[KEPT:]:
            path.unlink()
