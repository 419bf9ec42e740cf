"""The Kubernetes versions that can be built, each with the folder of its go.mod and go.sum.

All versions share one main.go; go.mod alone decides the exact release.
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
    """A minor version of Kubernetes; the folder `modules` holds its go.mod and go.sum."""

    name: str
    modules: Path

    @property
    def modfile(self) -> Path:
        """The go.mod of this version."""
        return self.modules / "go.mod"

    @property
    def release(self) -> str:
        """The exact release, for example 1.37.0."""
        found = _REQUIRED.search(self.modfile.read_text())
        assert found is not None, f"{self.modfile} does not require k8s.io/kubernetes"
        return found[1]

    @property
    def locks(self) -> tuple[str, ...]:
        """The contents of go.mod and go.sum; empty if they are in the folder of the sources."""
        if self.modules == SOURCES:
            return ()
        return tuple((self.modules / name).read_text() for name in ("go.mod", "go.sum"))


DEFAULT = KubernetesVersion("1.37", SOURCES)
OLDER = KubernetesVersion("1.36", SOURCES.with_name(f"{SOURCES.name}-1.36"))
VERSIONS = {version.name: version for version in (DEFAULT, OLDER)}


def find_version(name: str | None = None) -> KubernetesVersion:
    """Return the version of that name, else the one of the environment variable, else the default."""
    name = requested_version(name) or DEFAULT.name
    if name not in VERSIONS:
        raise LocalError(f"Kubernetes {name} cannot be built here", f"choose one of {', '.join(VERSIONS)}")
    return VERSIONS[name]


def requested_version(name: str | None = None) -> str | None:
    """Return the version name from the argument or the environment; None if neither is set."""
    return name or os.environ.get(VARIABLE) or None
