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
    from collections.abc import Callable
    from pathlib import Path

    from quintet.local.cluster import Cluster

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
    remove = f"`quintet down --name {name}` removes the cluster and everything in it"
    if cluster is None:
        raise LocalError(f"cluster {name} runs, but its cluster.json cannot be read", remove)
    found, nodes = cluster, cluster.list_nodes()
    waited = False

    def healthy() -> bool:
        nonlocal waited
        for process in find_processes(directory / "processes"):
            if not process.is_alive() and not is_of_stopped_node(process, nodes):
                for node in nodes:
                    if process.name == node.process("namespace").name:
                        step = f"quintet node stop {node.name}, then quintet node start {node.name}"
                        raise LocalError(f"node {node.name} has lost its namespaces", step)
                if process.name == "namespace":
                    raise LocalError(f"cluster {name} has lost the namespace of its control plane", remove)
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
