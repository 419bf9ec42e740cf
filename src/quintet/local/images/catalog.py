"""The container images of a node's cluster: names, Dockerfiles and what each is made of."""

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
    """An image: its name in the cluster, the folder of its Dockerfile, and what it is made of."""

    reference: str
    folder: str
    # Of Debian, for a base that is made here.
    packages: tuple[str, ...] = ()
    content: staging.ImageContent = field(default_factory=staging.NoContent)
    # A base of these packages alone, unpacked: a tenth of the size, and no package manager in it.
    bare: bool = False

    @property
    def base(self) -> str:
        """Names what its base is made of."""
        return bases.recipe_hash(self.packages, bare=self.bare) if self.packages else ""

    @property
    def cache_name(self) -> str:
        """How the names of its archives begin."""
        return self.folder.replace("/", "-")

    @property
    def directory(self) -> Path:
        """Where its Dockerfile is."""
        return find_resource(f"images/{self.folder}")


_LIBRARY = staging.SharedFolder("images/checkups/lib")
# What a person who looks around in a container finds, and what says which Debian it is.
_TOOLS = ("base-files", "coreutils", "dash", "libc-bin")
_PYTHON = (*_TOOLS, "python3")

IMAGES = (
    Image(PAUSE, "pause", content=staging.PauseProgram()),
    Image(JSON_SERVER, "json-server", (*_TOOLS, "nodejs"), staging.NpmPackages(), bare=True),
    Image(NATS, "nats", _TOOLS, staging.GoPrograms(), bare=True),
    Image(QUINTET, "quintet", (*_PYTHON, "ca-certificates"), staging.PythonPackages(), bare=True),
    Image(ECHO, "checkups/echo", (*_TOOLS, "mawk", "openssl"), _LIBRARY, bare=True),
    Image(ECHO_CONFIGMAP, "checkups/echo-configmap", _PYTHON, _LIBRARY, bare=True),
    Image(CLUSTER_BASICS, "checkups/cluster-basics", _PYTHON, _LIBRARY, bare=True),
)
