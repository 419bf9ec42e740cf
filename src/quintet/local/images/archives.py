"""Reads and normalizes image archives (tar files in OCI layout)."""

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

# Files of an archive that contain the image's name; they are not part of the image.
_NAMING = ("index.json", "manifest.json", "repositories")
# Whiteout markers of a layer: remove one file, or a folder's whole content, of the layers below.
_WHITEOUT, _OPAQUE_WHITEOUT = ".wh.", ".wh..wh..opq"


@dataclass(frozen=True, slots=True)
class LayerFile:
    """A regular file in a layer of an image; its content is readable until the next entry is read."""

    path: str
    mode: int
    content: IO[bytes]


@dataclass(frozen=True, slots=True)
class RemovedPath:
    """A file or folder of lower layers that a layer removes."""

    path: str


class Archive:
    """An open archive of one image."""

    def __init__(self, packed: tarfile.TarFile, name: str) -> None:
        self._packed, self._name = packed, name
        entries = self._json("index.json")["manifests"]
        if len(entries) != 1:
            raise self._unreadable("it contains several images")
        self.digest: str = entries[0]["digest"]
        """Digest of the manifest, by which a registry identifies the image."""
        self._manifest = self._json(self._blob(self.digest))

    @property
    def size(self) -> int:
        """Bytes to download for a complete pull."""
        return sum(part["size"] for part in (self._manifest["config"], *self._manifest["layers"]))

    def members(self) -> Iterator[LayerFile | RemovedPath]:
        """Yield the files and removals of every layer, lowest first; later entries override earlier ones."""
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
            f"{self._name} is not an archive of one image in OCI layout: {why}",
            "remove it and build the image again, with buildah, podman or docker 25 or newer",
        )

    @staticmethod
    def _blob(digest: str) -> str:
        return f"blobs/{digest.replace(':', '/')}"


def _member(files: tarfile.TarFile, entry: tarfile.TarInfo) -> Iterator[LayerFile | RemovedPath]:
    path = PurePosixPath("/", entry.name).relative_to("/")
    if path.name == _OPAQUE_WHITEOUT:
        yield RemovedPath(str(path.parent))
    elif path.name.startswith(_WHITEOUT):
        yield RemovedPath(str(path.with_name(path.name.removeprefix(_WHITEOUT))))
    elif entry.isfile() and (content := files.extractfile(entry)) is not None:
        yield LayerFile(str(path), entry.mode, content)
    elif not entry.isdir():
        yield RemovedPath(str(path))  # a link or device replaces the file


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open an image archive."""
    with tarfile.open(path) as packed:
        yield Archive(packed, path.name)


def normalize_archive(source: Path, target: Path, *, old_tag: str = "", new_tag: str = "") -> None:
    """Copy an archive with sorted entries, without times and owners, so that equal images are equal files.

    `old_tag`, which is unique to this image, becomes `new_tag` in the files that name the image.
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
