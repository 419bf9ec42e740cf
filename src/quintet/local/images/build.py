"""Builds the container images of a node when needed, and keeps them in the cache as archives."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from quintet.local import teardown
from quintet.local.build.programs import content_hash
from quintet.local.errors import LocalError, explain_os_error
from quintet.local.images.archives import normalize_archive
from quintet.local.images.builders import ImageBuilder, find_builders
from quintet.local.images.catalog import IMAGES, Image
from quintet.local.paths import build_folder, cache_directory, hold_lock, name_for_platform

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Every change of the source gives a new archive; keep a few for other checkouts.
MAX_ARCHIVES = 3
ANY_KEY = "[0-9a-f]" * 16
# Folders that a manual build puts beside a Dockerfile.
MANUAL_BUILD_FOLDERS = ("lib", "node_modules", "packages", "programs")


def build_archives(progress: Callable[[str], None]) -> dict[str, Path]:
    """Return the archive of every image by reference; build those that are not in the cache."""
    try:
        return {image.reference: build_archive(image, progress) for image in IMAGES}
    except OSError as error:
        raise explain_os_error(error) from error


def build_archive(image: Image, progress: Callable[[str], None]) -> Path:
    """Return the archive of an image; build it if it is not in the cache."""
    key = content_hash(
        image.directory, image.reference, image.base, image.content.digest(), without=MANUAL_BUILD_FOLDERS
    )
    # The reference is the same on every platform; the archive is not.
    kept = cache_directory() / "images" / f"{name_for_platform(f'{image.cache_name}-{key}')}.tar"
    with suppress(FileNotFoundError):
        os.utime(kept)
        return kept
    # One build of an image at a time: others wait and use its archive, or remove its unfinished files.
    with hold_lock(kept.with_name(f"{image.cache_name}.lock")):
        if not kept.exists():
            with build_folder(kept, leftovers=f"{image.cache_name}-{ANY_KEY}*.tar") as unfinished:
                product = unfinished / "image.tar"
                _build(image, key, unfinished, product, progress)
                product.rename(kept)
        os.utime(kept)
        _remove_old_archives(kept, image)
    return kept


def _build(image: Image, key: str, workplace: Path, product: Path, progress: Callable[[str], None]) -> None:
    # All users and checkouts share the tags of docker and podman. A unique tag prevents saving an image that
    # another checkout builds at the same time.
    tag, version = f"build-{key}-{secrets.token_hex(4)}", image.reference.rpartition(":")[2]
    failures = []
    for builder in find_builders(workplace, image.packages, progress, bare=image.bare):
        progress(f"building image {image.reference} with {builder.name}")
        try:
            saved = _build_with(builder, image, tag, workplace / builder.name, progress)
            normalize_archive(saved, product, old_tag=tag, new_tag=version)
            return
        except LocalError as error:
            failures.append(error)
            progress(f"  {error.message}")
    raise failures[-1]


def _build_with(
    builder: ImageBuilder, image: Image, tag: str, context: Path, progress: Callable[[str], None]
) -> Path:
    shutil.copytree(image.directory, context, ignore=shutil.ignore_patterns(*MANUAL_BUILD_FOLDERS))
    image.content.stage(context, builder, progress)
    _make_readable(context)
    saved = context.with_name(f"{context.name}.tar")
    reference = f"{image.reference.rpartition(':')[0]}:{tag}"
    builder.save(builder.build(context, tag=reference), reference, saved)
    return saved


def _make_readable(context: Path) -> None:
    """Make the context readable for any user, whatever the umask is: images run as arbitrary users."""
    for path in context.rglob("*"):
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runs else 0o644)


def _remove_old_archives(archive: Path, image: Image) -> None:
    """Remove all but the most recently used archives of the image."""
    with suppress(FileNotFoundError):  # another process removes them too
        found = archive.parent.glob(f"{name_for_platform(f'{image.cache_name}-{ANY_KEY}')}.tar")
        for path in sorted(found, key=lambda each: each.stat().st_mtime, reverse=True)[MAX_ARCHIVES:]:
            teardown.remove_file(path, within=archive.parent)
