"""The container images that a node runs: names, Dockerfiles and contents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quintet.imagenames import JSON_SERVER, NATS, QUINTET
from quintet.local.images import bases, staging
from quintet.local.paths import find_resource

if TYPE_CHECKING:
    from pathlib import Path

PAUSE = "quintet.local/pause:1"
ECHO = "quintet.local/checkups/echo:1"
ECHO_CONFIGMAP = "quintet.local/checkups/echo-configmap:1"
CLUSTER_BASICS = "quintet.local/checkups/cluster-basics:1"


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its reference, the folder of its Dockerfile, and its contents."""

    reference: str
    folder: str
    # Debian packages of the base image, if it is built here.
    packages: tuple[str, ...] = ()
    content: staging.ImageContent = field(default_factory=staging.NoContent)
    # Whether the base contains only these packages: a tenth of the size, and no package manager.
    bare: bool = False

    @property
    def base(self) -> str:
        """The hash of its base image; empty if it has none."""
        return bases.recipe_hash(self.packages, bare=self.bare) if self.packages else ""

    @property
    def cache_name(self) -> str:
        """The prefix of its archives in the cache."""
        return self.folder.replace("/", "-")

    @property
    def directory(self) -> Path:
        """The folder of its Dockerfile."""
        return find_resource(f"images/{self.folder}")


_LIBRARY = staging.SharedFolder("images/checkups/lib")
# Tools for debugging in a container, and the files that identify the Debian release.
_TOOLS = ("base-files", "coreutils", "dash", "libc-bin")
_PYTHON = (*_TOOLS, "python3")

IMAGES = (
    Image(PAUSE, "pause", content=staging.PauseProgram()),
    Image(JSON_SERVER, "json-server", (*_TOOLS, "nodejs"), staging.NpmPackages(), bare=True),
    Image(NATS, "nats", _TOOLS, staging.GoPrograms(), bare=True),
    Image(QUINTET, "quintet", (*_PYTHON, "ca-certificates", "tzdata"), staging.PythonPackages(), bare=True),
    Image(ECHO, "checkups/echo", (*_TOOLS, "mawk", "openssl"), _LIBRARY, bare=True),
    Image(ECHO_CONFIGMAP, "checkups/echo-configmap", _PYTHON, _LIBRARY, bare=True),
    Image(CLUSTER_BASICS, "checkups/cluster-basics", _PYTHON, _LIBRARY, bare=True),
)
