"""Loads images into the containerd of a node, those that it lacks or has with another content.

Called by `node` when it starts, and by `up` on a cluster that already runs: the tag of an image is the same
when its source has changed, so only the digest says what pods would run.
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
    """The containerd of a node, by its command-line client."""

    ctr: tuple[str, ...]

    def is_ready(self) -> bool:
        """Whether it answers."""
        return subprocess.run([*self.ctr, "version"], capture_output=True).returncode == 0

    def list_digests(self) -> dict[str, str]:
        """Return the digest of every image that it has, by reference."""
        rows = (line.split() for line in self._run("images", "list").splitlines()[1:])
        return {row[0]: digest for row in rows for digest in row[1:] if digest.startswith("sha256:")}

    def load(self, archives: Mapping[str, Path]) -> list[str]:
        """Import the archives (by reference) that differ; return the references that had another content."""
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
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode == 0:
            return answer.stdout
        said = (answer.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        if about is None:
            raise LocalError(f"containerd of the node does not answer: {said}", f"run `{' '.join(command)}`")
        raise LocalError(f"loading {about.name} failed: {said}", f"remove {about} and run it again")
