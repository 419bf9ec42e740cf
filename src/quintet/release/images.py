"""The images of a release: archives, digests and sizes, and what is in each. Called by `__main__`."""

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path

from quintet.apis.meta import JsonObject
from quintet.local.images import catalog
from quintet.local.images.archives import open_archive
from quintet.local.images.build import build_archive
from quintet.release import sbom
from quintet.release.contents import read_contents


def reason_not_buildable() -> str:
    """Why images cannot be built here; nothing if they can."""
    if platform.system() != "Linux":
        return f"they are built on Linux, and this is {platform.system()}"
    return "" if os.geteuid() == 0 else "they are built by root"


def write_images(
    requirements: str, file: Callable[[Path, bytes | Path], None], progress: Callable[[str], None]
) -> None:
    """Build every image that is not in the cache, and give each file to `file`."""
    locked = list(sbom.python_packages(requirements))
    listed = []
    for image in catalog.IMAGES:
        archive = build_archive(image, progress)
        path = Path("images") / f"{file_stem(image)}.tar"
        file(path, archive)
        described = describe(archive)
        progress(f"{image.reference} {described['digest']} {described['size'] / 1e6:.1f} MB")
        listed.append({"reference": image.reference, **described, "archive": path.as_posix()})
        file(Path("sbom") / f"{file_stem(image)}.cdx.json", render_sbom(image, archive, locked).encode())
    file(Path("images.json"), (json.dumps(listed, indent=2) + "\n").encode())


def file_stem(image: catalog.Image) -> str:
    """How files of an image are called."""
    return f"{image.cache_name}-{image.reference.rpartition(':')[2]}"


def describe(archive: Path) -> JsonObject:
    """What a registry will say of the image: its digest and the bytes that are fetched."""
    with open_archive(archive) as found:
        return {"digest": found.digest, "size": found.size}


def render_sbom(image: catalog.Image, archive: Path, locked: list[sbom.Package]) -> str:
    """The document that lists every package in an image."""
    with open_archive(archive) as found:
        inside = read_contents(found.members())
        digest = found.digest
    repository, _, version = image.reference.rpartition(":")
    url = f"pkg:oci/{repository.rpartition('/')[2]}@{digest.replace(':', '%3A')}"
    subject = sbom.SbomSubject(repository, version, url=url, system=inside.system)
    return sbom.render_document(subject, sbom.with_hashes(inside.packages, locked))
