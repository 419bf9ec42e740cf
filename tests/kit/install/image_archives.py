"""Small image archives in the layout that builders write."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path


def layer(*entries: tuple[str, bytes | str | None], compressed: bool = True) -> bytes:
    """Return a layer with files (bytes), symbolic links (text) and folders (None)."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as written:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            if content is None:
                entry.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
            else:
                entry.size, entry.mode = len(content), 0o755
            written.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)
    # Without a time, so that the same layer is the same bytes in another second.
    return gzip.compress(packed.getvalue(), mtime=0) if compressed else packed.getvalue()


def an_image(
    path: Path, *layers: bytes, mtime: int = 0, reverse: bool = False, name: str | None = None
) -> str:
    """Write an archive as a builder would and return the digest of the image."""
    blobs = {f"sha256:{hashlib.sha256(content).hexdigest()}": content for content in (b"{}", *layers)}
    config, *rest = [{"digest": digest, "size": len(content)} for digest, content in blobs.items()]
    manifest = json.dumps({"config": config, "layers": rest}).encode()
    digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    blobs[digest] = manifest
    files = {f"blobs/{name.replace(':', '/')}": content for name, content in blobs.items()}
    named = {"annotations": {"name": name}} if name else {}
    files["index.json"] = json.dumps({"manifests": [{"digest": digest} | named]}).encode()
    with tarfile.open(path, "w") as written:
        for file, content in sorted(files.items(), reverse=reverse):
            entry = tarfile.TarInfo(file)
            entry.size, entry.mtime, entry.uid = len(content), mtime, mtime
            written.addfile(entry, io.BytesIO(content))
    return digest
