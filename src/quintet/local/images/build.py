"""Builds the container images of a node's cluster when needed, and keeps them in the cache as archives.

No registry and no daemon are needed.
"""

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

# Every change of the operator's source makes another archive: the last few serve other checkouts.
KEPT = 3
ANY_KEY = "[0-9a-f]" * 16
# What somebody who builds by hand has put beside a Dockerfile.
BY_HAND = ("lib", "node_modules", "packages", "programs")


def build_archives(progress: Callable[[str], None]) -> dict[str, Path]:
    """Return the archive of every image by its reference, building those that are not in the cache."""
    try:
        return {image.reference: build_archive(image, progress) for image in IMAGES}
    except OSError as error:
        raise explain_os_error(error) from error


def build_archive(image: Image, progress: Callable[[str], None]) -> Path:
    """Return the archive of one image, building it if it is not in the cache."""
    key = content_hash(image.directory, image.reference, image.base, image.content.digest(), without=BY_HAND)
    # The reference and its lock are the same on every machine; the archive is not.
    kept = cache_directory() / "images" / f"{name_for_platform(f'{image.cache_name}-{key}')}.tar"
    with suppress(FileNotFoundError):
        os.utime(kept)
        return kept
    # One build of an image at a time: the others then find what it leaves, or remove what it left unfinished.
    with hold_lock(kept.with_name(f"{image.cache_name}.lock")):
        if not kept.exists():
            with build_folder(kept, leftovers=f"{image.cache_name}-{ANY_KEY}*.tar") as unfinished:
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
        found = archive.parent.glob(f"{name_for_platform(f'{image.cache_name}-{ANY_KEY}')}.tar")
        for path in sorted(found, key=lambda each: each.stat().st_mtime, reverse=True)[KEPT:]:
            teardown.remove_file(path, within=archive.parent)
