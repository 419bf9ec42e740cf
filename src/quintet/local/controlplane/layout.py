"""The folder, ports and network of a control plane, and how its processes are started there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quintet.local.process import ManagedProcess

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

POD_RANGE = "10.88.0.0/16"


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Options of `up`: the cluster's name, its programs, and how they run."""

    name: str
    programs: Path
    nodes: int = 0
    zones: tuple[str, ...] = ()
    durable: bool = False
    audited: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """A control plane's folder, programs and ports, and the command prefix that enters its network."""

    directory: Path
    programs: Path
    etcd_port: int
    peer_port: int
    api_port: int
    # The API server's port on the machine; differs from api_port only with a node.
    outer_port: int
    # The address that the nodes use; None without nodes.
    address: str | None = None
    nodes: int = 0
    durable: bool = False
    audited: bool = False
    enter: tuple[str, ...] = ()
    cgroup: Path | None = None

    @property
    def pki(self) -> Path:
        """The folder of the certificates."""
        return self.directory / "pki"

    @property
    def processes(self) -> Path:
        """The folder of the process records and logs."""
        return self.directory / "processes"

    @property
    def etcd_url(self) -> str:
        """The URL of etcd, as the API server sees it."""
        return f"http://127.0.0.1:{self.etcd_port}"

    @property
    def server(self) -> str:
        """The URL of the API server for programs of the cluster."""
        return f"https://{self.address or '127.0.0.1'}:{self.api_port}"

    def process(self, name: str) -> ManagedProcess:
        """Return the process of a program."""
        return ManagedProcess(name, self.processes)

    def start(self, name: str, arguments: Sequence[str], env: dict[str, str] | None = None) -> ManagedProcess:
        """Start a program of Kubernetes by its name."""
        return self.run(name, [str(self.programs / name), *arguments], env)

    def run(self, name: str, argv: Sequence[str], env: dict[str, str] | None = None) -> ManagedProcess:
        """Start a command inside the cluster's network."""
        process = self.process(name)
        process.start([*self.enter, *argv], environment=env, cgroup=self.cgroup)
        return process
