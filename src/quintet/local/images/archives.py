"""Reads archives of images (OCI layout in a tar file), and writes them without times and owners.

Called by `images` after a build, and by `release`, which says what is in them.
"""

from __future__ import annotations

import io
import json
import tarfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The files of an archive that say what its image is called; they are not part of the image.
_NAMING = ("index.json", "manifest.json", "repositories")
# In a layer: this file of the layers below is gone; everything that they have in this folder is gone.
_GONE, _ALL_GONE = ".wh.", ".wh..wh..opq"


@dataclass(frozen=True, slots=True)
class LayerFile:
    """One regular file in a layer of an image; its content can be read until the next one is asked for."""

    path: str
    mode: int
    content: IO[bytes]


@dataclass(frozen=True, slots=True)
class RemovedPath:
    """Says that a file or folder of the layers below is not in the image."""

    path: str


class Archive:
    """An image in an open archive."""

    def __init__(self, packed: tarfile.TarFile, name: str) -> None:
        self._packed, self._name = packed, name
        entries = self._json("index.json")["manifests"]
        if len(entries) != 1:
            raise self._unreadable("it holds several images")
        self.digest: str = entries[0]["digest"]
        """Of the manifest: what a registry knows the image by."""
        self._manifest = self._json(self._blob(self.digest))

    @property
    def size(self) -> int:
        """Bytes that are fetched where nothing of it is there yet."""
        return sum(part["size"] for part in (self._manifest["config"], *self._manifest["layers"]))

    def members(self) -> Iterator[LayerFile | RemovedPath]:
        """Every regular file of every layer, the lowest layer first; a later one of the same path counts."""
        for layer in self._manifest["layers"]:
            with tarfile.open(fileobj=self._open(self._blob(layer["digest"])), mode="r:*") as files:
                for entry in files:
                    yield from _member(files, entry)

    def _json(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.load(self._open(name))
        return found

    def _open(self, name: str) -> IO[bytes]:
        try:
            found = self._packed.extractfile(name)
        except KeyError:
            found = None
        if found is None:
            raise self._unreadable(f"it has no {name}")
        return found

    def _unreadable(self, why: str) -> LocalError:
        return LocalError(
            f"{self._name} is no archive of one image in OCI layout: {why}",
            "remove it and build the image again, with buildah, podman or docker 25 or newer",
        )

    @staticmethod
    def _blob(digest: str) -> str:
        return f"blobs/{digest.replace(':', '/')}"


def _member(files: tarfile.TarFile, entry: tarfile.TarInfo) -> Iterator[LayerFile | RemovedPath]:
    path = PurePosixPath("/", entry.name).relative_to("/")
    if path.name == _ALL_GONE:
        yield RemovedPath(str(path.parent))
    elif path.name.startswith(_GONE):
        yield RemovedPath(str(path.with_name(path.name.removeprefix(_GONE))))
    elif entry.isfile() and (content := files.extractfile(entry)) is not None:
        yield LayerFile(str(path), entry.mode, content)
    elif not entry.isdir():
        yield RemovedPath(str(path))  # a link or device has taken its place


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open the archive of an image."""
    with tarfile.open(path) as packed:
        yield Archive(packed, path.name)


def normalize_archive(source: Path, target: Path, *, old_tag: str = "", new_tag: str = "") -> None:
    """Write an archive again so that the same image is the same file: sorted, without times and owners.

    `old_tag`, which only this image has, becomes `new_tag` where the archive names its image.
    """
    with tarfile.open(source) as packed, tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as written:
        for entry in sorted((each for each in packed if not each.isdir()), key=lambda each: each.name):
            plain = tarfile.TarInfo(entry.name.removeprefix("./"))
            plain.size, plain.mode = entry.size, 0o644
            plain.type, plain.linkname = entry.type, entry.linkname
            content = packed.extractfile(entry)
            if content is not None and old_tag and plain.name in _NAMING:
                renamed = content.read().replace(old_tag.encode(), new_tag.encode())
                plain.size, content = len(renamed), io.BytesIO(renamed)
            written.addfile(plain, content if entry.isfile() else None)
