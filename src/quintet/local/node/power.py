"""Stops and starts single nodes of a running cluster, and takes their network away.

A stopped node is like a machine without power: its processes are killed, its disk stays. A node without
network goes on running its pods.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from quintet.local import teardown
from quintet.local.errors import LocalError
from quintet.local.node.layout import Node, enter_namespaces
from quintet.local.node.parts import NodeParts
from quintet.local.node.programs import start_programs, start_runtime, wait_for_nodes
from quintet.local.paths import write_file
from quintet.local.process import ManagedProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from quintet.local.controlplane.layout import Layout


def stop_node(node: Node) -> None:
    """Kill all processes of the node, pods included; its disk stays."""
    # Written first: a cluster whose node dies on purpose is not broken.
    write_file(node.stop_marker, "")
    node.cgroup.clear()


def start_node(node: Node, nodes: Sequence[Node], layout: Layout, report: Callable[[str], None]) -> None:
    """Start a stopped node and wait until it is Ready."""
    if not node.is_stopped():
        raise LocalError(f"node {node.name} is not stopped", f"quintet node stop {node.name}")
    parts = NodeParts.find(report)
    node.cgroup.clear()  # of a start that was interrupted
    try:
        client = start_runtime(node, nodes, parts.runtime)
        start_programs(node, layout)
        client.load(parts.archives)
        wait_for_nodes([node], layout)
    except BaseException:
        node.cgroup.clear()
        raise
    teardown.remove_file(node.stop_marker, within=node.directory)


def connect_node(node: Node, *, up: bool) -> None:
    """Connect the node to the switch, or disconnect it; it keeps its addresses and routes."""
    if node.is_stopped():
        raise LocalError(f"node {node.name} is stopped", f"quintet node start {node.name}")
    switch = ManagedProcess("namespace", node.cluster / "processes")
    command = [*enter_namespaces(switch, "net"), "ip", "link", "set", node.link, "up" if up else "down"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise LocalError(
            f"the link of node {node.name} cannot be changed: {result.stderr.strip()}",
            f"quintet node stop {node.name}, then quintet node start {node.name}",
        )
