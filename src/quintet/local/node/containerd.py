"""Loads images into a node's containerd if they are missing or have changed.

The tag of an image stays the same when its source changes, so images are compared by digest.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quintet.local.errors import LocalError
from quintet.local.images.archives import open_archive

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAMESPACE = "k8s.io"


@dataclass(frozen=True, slots=True)
class Containerd:
    """A node's containerd; `ctr` is the command line of its client."""

    ctr: tuple[str, ...]

    def is_ready(self) -> bool:
        """Return whether containerd responds."""
        return subprocess.run([*self.ctr, "version"], capture_output=True).returncode == 0

    def list_digests(self) -> dict[str, str]:
        """Return the digest of every loaded image by reference."""
        rows = (line.split() for line in self._run("images", "list").splitlines()[1:])
        return {row[0]: digest for row in rows for digest in row[1:] if digest.startswith("sha256:")}

    def load(self, archives: Mapping[str, Path]) -> list[str]:
        """Import the archives whose digests differ; return the references of images that it replaced."""
        present = self.list_digests()
        changed = []
        for reference, archive in archives.items():
            with open_archive(archive) as image:
                digest = image.digest
            if present.get(reference) == digest:
                continue
            self._run("images", "import", "--no-unpack", str(archive), about=archive)
            if reference in present:
                changed.append(reference)
        return changed

    def _run(self, *arguments: str, about: Path | None = None) -> str:
        command = [*self.ctr, "--namespace", NAMESPACE, *arguments]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode == 0:
            return result.stdout
        last = (result.stderr.strip().splitlines() or ["no error message"])[-1]
        if about is None:
            raise LocalError(f"containerd of the node does not respond: {last}", f"run `{' '.join(command)}`")
        raise LocalError(f"loading {about.name} failed: {last}", f"remove {about} and run the command again")
