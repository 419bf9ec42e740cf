"""The Go modules that can be built: the Kubernetes versions, and containerd with the CNI plugins.

A go.mod and a go.sum decide the exact releases. All Kubernetes versions share one main.go.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from quintet.local.errors import LocalError

VARIABLE = "QUINTET_KUBERNETES"
SOURCES = Path(__file__).parents[1] / "kube"
_VERSION = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True)
class ModuleSet:
    """The modules of a product; the folder `modules` holds their go.mod and go.sum."""

    product: str
    module: str
    """The module whose version is the release of the product."""
    modules: Path
    sources: Path
    """The folder in which packages are built."""
    stamps: tuple[str, ...]
    """Variables that report the release, with their values."""

    @property
    def modfile(self) -> Path:
        """The go.mod."""
        return self.modules / "go.mod"

    @property
    def release(self) -> str:
        """The exact release, for example 1.37.0."""
        found = re.search(rf"^\s*{re.escape(self.module)} v(\S+)", self.modfile.read_text(), re.MULTILINE)
        assert found is not None, f"{self.modfile} does not require {self.module}"
        return found[1]

    @property
    def name(self) -> str:
        """The minor version, for example 1.37."""
        return self.release.rpartition(".")[0]

    @property
    def title(self) -> str:
        """Product and release."""
        return f"{self.product} {self.release}"

    @property
    def locks(self) -> tuple[str, ...]:
        """The contents of go.mod and go.sum; empty if they are in the folder of the sources."""
        if self.modules == self.sources:
            return ()
        return tuple((self.modules / name).read_text() for name in ("go.mod", "go.sum"))

    @property
    def tools(self) -> tuple[str, ...]:
        """The packages that go.mod lists as tools."""
        block = re.search(r"^tool \((.*?)^\)", self.modfile.read_text(), re.MULTILINE | re.DOTALL)
        return tuple(block[1].split()) if block else ()

    @property
    def link_flags(self) -> tuple[str, ...]:
        """The flags of the linker that set the stamps."""
        major, minor, _ = self.release.split(".")
        values = {"release": self.release, "major": major, "minor": minor}
        return tuple(f"-X {stamp.format(**values)}" for stamp in self.stamps)


def _kubernetes(folder: Path) -> ModuleSet:
    stamps = ("gitVersion=v{release}", "gitMajor={major}", "gitMinor={minor}")
    return ModuleSet(
        "Kubernetes", "k8s.io/kubernetes", folder, SOURCES, tuple(f"{_VERSION}.{each}" for each in stamps)
    )


DEFAULT = _kubernetes(SOURCES)
OLDER = {name: _kubernetes(SOURCES.with_name(f"{SOURCES.name}-{name}")) for name in ("1.36",)}
VERSIONS = {"1.37": DEFAULT, **OLDER}

_CONTAINERD = "github.com/containerd/containerd/v2"
_FOLDER = SOURCES.with_name("containerd")
CONTAINERD = ModuleSet(
    "containerd", _CONTAINERD, _FOLDER, _FOLDER, (f"{_CONTAINERD}/version.Version=v{{release}}",)
)


def find_version(name: str | None = None) -> ModuleSet:
    """Return the version of that name, else the one of the environment variable, else the default."""
    name = requested_version(name) or DEFAULT.name
    if name not in VERSIONS:
        raise LocalError(f"Kubernetes {name} cannot be built here", f"choose one of {', '.join(VERSIONS)}")
    return VERSIONS[name]


def requested_version(name: str | None = None) -> str | None:
    """Return the version name from the argument or the environment; None if neither is set."""
    return name or os.environ.get(VARIABLE) or None
