"""The images of a release: archives, digests, sizes and SBOMs."""

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
    """Return why images cannot be built here; empty if they can."""
    if platform.system() != "Linux":
        return f"building needs Linux, and this is {platform.system()}"
    return "" if os.geteuid() == 0 else "building needs root"


def write_images(
    requirements: str, add_file: Callable[[Path, bytes | Path], None], progress: Callable[[str], None]
) -> None:
    """Build every image that is not in the cache; pass each file of the release to `add_file`."""
    locked = list(sbom.python_packages(requirements))
    listed = []
    for image in catalog.IMAGES:
        archive = build_archive(image, progress)
        path = Path("images") / f"{file_stem(image)}.tar"
        add_file(path, archive)
        described = describe(archive)
        progress(f"{image.reference} {described['digest']} {described['size'] / 1e6:.1f} MB")
        listed.append({"reference": image.reference, **described, "archive": path.as_posix()})
        add_file(Path("sbom") / f"{file_stem(image)}.cdx.json", render_sbom(image, archive, locked).encode())
    add_file(Path("images.json"), (json.dumps(listed, indent=2) + "\n").encode())


def file_stem(image: catalog.Image) -> str:
    """Return the file name of an image, without suffix."""
    return f"{image.cache_name}-{image.reference.rpartition(':')[2]}"


def describe(archive: Path) -> JsonObject:
    """Return the digest and the download size of an image."""
    with open_archive(archive) as found:
        return {"digest": found.digest, "size": found.size}


def render_sbom(image: catalog.Image, archive: Path, locked: list[sbom.Package]) -> str:
    """Return the SBOM of an image."""
    with open_archive(archive) as found:
        inside = read_contents(found.members())
        digest = found.digest
    repository, _, version = image.reference.rpartition(":")
    url = f"pkg:oci/{repository.rpartition('/')[2]}@{digest.replace(':', '%3A')}"
    subject = sbom.SbomSubject(repository, version, url=url, system=inside.system)
    return sbom.render_document(subject, sbom.with_hashes(inside.packages, locked))
