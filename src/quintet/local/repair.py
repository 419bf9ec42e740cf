"""Decides what `up` does with an existing cluster: repair it, wait for it, refuse it or remove it.

The caller holds the lock of the cluster's name. A cluster that was started completely may be removed
only if none of its processes runs, for example after a reboot; a slow cluster is waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quintet.local.cleanup import check_ownership
from quintet.local.errors import LocalError
from quintet.local.node.layout import is_of_stopped_node
from quintet.local.process import find_processes, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from quintet.local.cluster import Cluster
    from quintet.local.node.layout import Node

SECONDS = 60.0
PAUSE = 0.5


def is_removable(directory: Path) -> bool:
    """Return whether `up` may remove the cluster: incomplete, partly removed, or no process runs."""
    if not directory.exists():
        return True
    check_ownership(directory)
    finished = (directory / "cluster.json").exists() and not (directory / "processes.ending").exists()
    return not finished or not any(each.is_alive() for each in find_processes(directory / "processes"))


def repair_cluster(directory: Path, cluster: Cluster | None, report: Callable[[str], None]) -> Cluster:
    """Restart the processes of a running cluster that have ended, and wait until it is healthy."""
    name = directory.name
    remove = _removal(name)
    if cluster is None:
        raise LocalError(f"cluster {name} runs, but its cluster.json cannot be read", remove)
    found, nodes = cluster, cluster.list_nodes()
    waited = False

    def healthy() -> bool:
        nonlocal waited
        known = find_processes(directory / "processes")
        ended = [each for each in known if not each.is_alive() and not is_of_stopped_node(each, nodes)]
        # Before any restart: a recorded command enters the namespaces of a pid, which can be reused by a
        # process of the machine once the process that held the namespaces has ended.
        _check_namespaces(name, {each.name for each in ended}, nodes)
        for process in ended:
            report(f"{process.name} of cluster {name} has ended: restarting it")
            process.start_again()
        if found.is_healthy():
            return True
        if not waited:
            report(f"waiting for cluster {name}, which runs but does not respond")
            waited = True
        return False

    def late() -> LocalError:
        process = found.process("kube-apiserver")
        return LocalError(
            f"cluster {name} runs but is not ready after {SECONDS:.0f} s: {process.find_log_reason()}",
            f"read {process.log} and the other logs in that folder, then try again; {remove}",
        )

    wait_until(healthy, SECONDS, late, pause=PAUSE)
    return found


def _check_namespaces(name: str, ended: Collection[str], nodes: Sequence[Node]) -> None:
    """Raise an error if a process has ended that held the namespaces of the control plane or of a node."""
    if "namespace" in ended:
        raise LocalError(f"cluster {name} has lost the namespace of its control plane", _removal(name))
    for node in nodes:
        if node.process("namespace").name in ended:
            step = f"quintet node stop {node.name}, then quintet node start {node.name}"
            raise LocalError(f"node {node.name} has lost its namespaces", step)


def _removal(name: str) -> str:
    return f"`quintet down --name {name}` removes the cluster and everything in it"
