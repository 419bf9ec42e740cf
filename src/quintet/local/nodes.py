"""Stops, starts, disconnects and connects single nodes of a running cluster."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from quintet.local.cluster import Cluster, find_lock, list_clusters, load_cluster
from quintet.local.errors import LocalError, explain_os_error
from quintet.local.paths import hold_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from quintet.local.node.layout import Node


def stop(name: str, cluster: str) -> Node:
    """Kill every process of a node, as if its power failed; return the node."""
    from quintet.local.node.power import stop_node

    with _lock_node(name, cluster) as (_, node):
        stop_node(node)
        return node


def start(name: str, cluster: str, report: Callable[[str], None]) -> Node:
    """Start a stopped node with what it has on disk; return the node when it is Ready."""
    from quintet.local.node.power import start_node
    from quintet.local.node.start import layout_with_nodes

    with _lock_node(name, cluster) as (found, node):
        layout = layout_with_nodes(found.directory, found.programs, found.port, len(found.nodes))
        start_node(node, found.list_nodes(), layout, report)
        return node


def partition(name: str, cluster: str) -> Node:
    """Disconnect a node from the control plane and the other nodes; return the node."""
    from quintet.local.node.power import connect_node

    with _lock_node(name, cluster) as (_, node):
        connect_node(node, up=False)
        return node


def heal(name: str, cluster: str) -> Node:
    """Connect a node again; return the node."""
    from quintet.local.node.power import connect_node

    with _lock_node(name, cluster) as (_, node):
        connect_node(node, up=True)
        return node


def find_node(name: str, cluster: str) -> tuple[Cluster, Node]:
    """Return a node by its name in any cluster, or by its number in the given cluster, with its cluster."""
    known = [cluster] if name.isdigit() else list_clusters()
    found = [each for each in map(load_cluster, known) if each is not None]
    for each in found:
        for node in each.list_nodes():
            if name in (node.name, str(node.number)):
                return each, node
    nodes = ", ".join(node for each in found for node in each.nodes)
    raise LocalError(
        f"there is no node {name}{f' in cluster {cluster}' if name.isdigit() else ''}",
        f"choose one of {nodes}" if nodes else "quintet up --nodes 3",
    )


@contextmanager
def _lock_node(name: str, cluster: str) -> Iterator[tuple[Cluster, Node]]:
    """Find a node and hold the lock of its cluster."""
    try:
        with hold_lock(find_lock(find_node(name, cluster)[0].name)):
            yield find_node(name, cluster)  # again: it may have been removed meanwhile
    except OSError as error:
        raise explain_os_error(error) from error
