"""The addresses, folders, cgroup and processes of one node, derived from its number. Starts nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quintet.local.node.cgroups import Cgroup, cluster_cgroup
from quintet.local.process import ManagedProcess
from quintet.local.teardown import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

MAXIMUM = 10
SWITCH_ADDRESS = "192.168.255.1"
PROGRAMS = ("namespace", "containerd", "kubelet", "kube-proxy", "storage")


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster in the folder `cluster`; the first has the number 1."""

    cluster: Path
    number: int
    zone: str = ""

    @property
    def name(self) -> str:
        """The name of its Node object."""
        return f"quintet-{self.cluster.name}-{self.number}"

    @property
    def directory(self) -> Path:
        """The folder of what the node keeps on disk, also while it is stopped."""
        return self.cluster / "nodes" / str(self.number)

    @property
    def address(self) -> str:
        """Its address in the network of the cluster."""
        return f"192.168.255.{10 + self.number}"

    @property
    def pod_range(self) -> str:
        """The addresses of its pods."""
        return f"10.88.{self.number}.0/24"

    @property
    def link(self) -> str:
        """The name of its port at the switch, in the namespace of the control plane."""
        return f"node-{self.number}"

    @property
    def cgroup(self) -> Cgroup:
        """The cgroup of its programs and pods."""
        return Cgroup(cluster_cgroup(self.cluster).name, self.link)

    @property
    def stop_marker(self) -> Path:
        """The file that exists while the node is stopped on purpose."""
        return self.directory / "stopped"

    def is_stopped(self) -> bool:
        """Return whether the node was stopped on purpose."""
        return self.stop_marker.exists()

    def process(self, program: str) -> ManagedProcess:
        """Return the process of a program of this node, such as kubelet."""
        return ManagedProcess(f"{program}-{self.number}", self.cluster / "processes")

    def enter(self) -> tuple[str, ...]:
        """Return the command prefix that enters the network and mount namespaces of the node."""
        return enter_namespaces(self.process("namespace"), "net", "mnt")

    def run(self, program: str, argv: Sequence[str], env: dict[str, str] | None = None) -> ManagedProcess:
        """Start a program in the namespaces and the cgroup of the node."""
        process = self.process(program)
        process.start([*self.enter(), *argv], environment=env, cgroup=self.cgroup.system)
        return process


def list_nodes(cluster: Path, count: int, zones: Sequence[str] = ()) -> list[Node]:
    """Return the nodes of a cluster; zones are assigned in turn."""
    numbers = range(1, count + 1)
    return [Node(cluster, each, zones[(each - 1) % len(zones)] if zones else "") for each in numbers]


def is_of_stopped_node(process: ManagedProcess, nodes: Sequence[Node]) -> bool:
    """Return whether the process belongs to a node that was stopped on purpose."""
    program, _, number = process.name.rpartition("-")
    return program in PROGRAMS and any(str(each.number) == number and each.is_stopped() for each in nodes)


def enter_namespaces(holder: ManagedProcess, *kinds: str) -> tuple[str, ...]:
    """Return the command prefix that enters namespaces ("net", "mnt") of a running process.

    Raise an error if a namespace is that of the machine, which no command of a node may change.
    """
    flags = {"net": "--net", "mnt": "--mount"}
    places = {kind: Path(f"/proc/{holder.pid}/ns/{kind}") for kind in kinds}
    for kind, place in places.items():
        if place.readlink() == Path(f"/proc/self/ns/{kind}").readlink():
            raise RefusedError(
                f"{holder.name} is in the {kind} namespace of the machine", "quintet down removes the cluster"
            )
    return ("nsenter", *(f"{flags[kind]}={place}" for kind, place in places.items()), "--")
