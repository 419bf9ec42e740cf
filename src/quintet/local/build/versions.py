"""The versions of Kubernetes that a cluster can be of: for each, the folder with its Go modules.

Called by `build` and `cluster`. The program's source is one and the same; a version is no more than
a go.mod and a go.sum, and what exactly it is stands in that go.mod alone.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from quintet.local.errors import LocalError

VARIABLE = "QUINTET_KUBERNETES"
SOURCES = Path(__file__).parents[1] / "kube"
_REQUIRED = re.compile(r"^\s*k8s\.io/kubernetes v(\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class KubernetesVersion:
    """A minor version of Kubernetes, and the folder that holds its go.mod and go.sum."""

    name: str
    modules: Path

    @property
    def modfile(self) -> Path:
        """The go.mod to build with."""
        return self.modules / "go.mod"

    @property
    def release(self) -> str:
        """The exact version, for example 1.37.0."""
        found = _REQUIRED.search(self.modfile.read_text())
        assert found is not None, f"{self.modfile} does not require k8s.io/kubernetes"
        return found[1]

    @property
    def locks(self) -> tuple[str, ...]:
        """What the files that lock it say, unless they lie among the sources."""
        if self.modules == SOURCES:
            return ()
        return tuple((self.modules / name).read_text() for name in ("go.mod", "go.sum"))


DEFAULT = KubernetesVersion("1.37", SOURCES)
OLDER = KubernetesVersion("1.36", SOURCES.with_name(f"{SOURCES.name}-1.36"))
VERSIONS = {version.name: version for version in (DEFAULT, OLDER)}


def find_version(name: str | None = None) -> KubernetesVersion:
    """The version of that name, or of the one in the environment, or the one that is usual."""
    name = requested_version(name) or DEFAULT.name
    if name not in VERSIONS:
        raise LocalError(f"Kubernetes {name} cannot be built here", f"choose one of {', '.join(VERSIONS)}")
    return VERSIONS[name]


def requested_version(name: str | None = None) -> str | None:
    """What was asked for, by argument or in the environment; None if any will do."""
    return name or os.environ.get(VARIABLE) or None
