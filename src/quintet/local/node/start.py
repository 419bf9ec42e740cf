"""Starts a cluster with nodes.

The control plane, cluster DNS and the switch share one network namespace; each node has its own network
and mount namespace. All processes are in one cgroup, with a child per node, so that none survives the removal
of the cluster.
"""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from quintet.local.api import Api
from quintet.local.build.packages import SEARCH
from quintet.local.controlplane.layout import Layout
from quintet.local.controlplane.start import start_control_plane, write_certificates
from quintet.local.node import config, namespace
from quintet.local.node.cgroups import cluster_cgroup
from quintet.local.node.layout import SWITCH_ADDRESS, Node, enter_namespaces, list_nodes
from quintet.local.node.parts import NodeParts
from quintet.local.node.programs import (
    SECONDS,
    find_client,
    holder_command,
    start_programs,
    start_runtime,
    wait_for_nodes,
)
from quintet.local.node.volumes import storage_classes
from quintet.local.process import ManagedProcess, wait_while_running

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from quintet.local.controlplane.layout import StartOptions

ETCD_PORT, PEER_PORT = 2379, 2380
DNS = "dns"


def start_with_nodes(
    options: StartOptions, directory: Path, report: Callable[[str], None]
) -> tuple[Layout, list[Node]]:
    """Start the control plane and the nodes; return the layout and the nodes once they are Ready."""
    nodes = list_nodes(directory, options.nodes, options.zones)
    parts = NodeParts.find(report)
    counted = "a node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    report(f"starting the control plane and {counted} of cluster {options.name}")
    layout = _start_switch(directory, options.programs, nodes)
    layout = replace(layout, durable=options.durable, audited=options.audited)
    write_certificates(layout)
    with ThreadPoolExecutor(len(nodes)) as pool:
        clients = [pool.submit(start_runtime, node, nodes, parts.runtime) for node in nodes]
        start_control_plane(layout)
        _start_services(layout, parts)
        for node, client in zip(nodes, clients, strict=True):
            client.result()
            start_programs(node, layout)
        report("loading images")
        for loaded in [pool.submit(client.result().load, parts.archives) for client in clients]:
            loaded.result()
    wait_for_nodes(nodes, layout)
    return layout, nodes


def layout_with_nodes(directory: Path, programs: Path, port: int, nodes: int) -> Layout:
    """Return the layout of a control plane with nodes whose switch runs; `port` is the relay's."""
    return Layout(
        directory,
        programs,
        ETCD_PORT,
        PEER_PORT,
        namespace.API_PORT,
        port,
        address=SWITCH_ADDRESS,
        nodes=nodes,
        enter=enter_namespaces(ManagedProcess("namespace", directory / "processes"), "net"),
        cgroup=cluster_cgroup(directory).system,
    )


def refresh_images(nodes: Sequence[Node], report: Callable[[str], None]) -> None:
    """Load the images that have changed since the running nodes loaded them, and report each."""
    parts = NodeParts.find(report)
    clients = [find_client(node, parts.runtime) for node in nodes if not node.is_stopped()]
    if not clients:
        return
    with ThreadPoolExecutor(len(clients)) as pool:
        changed = {
            reference for each in pool.map(lambda it: it.load(parts.archives), clients) for reference in each
        }
    for reference in sorted(changed):
        report(f"reloaded {reference}, which has changed; running pods keep the old image")


def _start_switch(directory: Path, programs: Path, nodes: Sequence[Node]) -> Layout:
    group = cluster_cgroup(directory)
    group.create()
    ready = directory / namespace.READY
    network = namespace.Network(SWITCH_ADDRESS, {node.pod_range: node.address for node in nodes})
    process = ManagedProcess("namespace", directory / "processes")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        descriptor, port = listener.fileno(), listener.getsockname()[1]
        process.start(
            ["unshare", "--net", *holder_command("switch", network, ready, str(descriptor))],
            environment={"PATH": SEARCH},
            cgroup=group.system,
            descriptors=(descriptor,),
        )
    late = partial(process.failure, "does not get ready")
    wait_while_running([process], ready.exists, SECONDS, late)
    return layout_with_nodes(directory, programs, port, len(nodes))


def _start_services(layout: Layout, parts: NodeParts) -> None:
    """Start cluster DNS, and create its objects and the StorageClasses."""
    corefile = layout.directory / "Corefile"
    corefile.write_text(config.corefile(SWITCH_ADDRESS, layout.pki / "admin.kubeconfig"))
    layout.run(DNS, [str(parts.dns / "dns"), str(corefile)])
    api = Api(layout.directory, layout.outer_port)
    for path, body in config.dns_objects(SWITCH_ADDRESS):
        api.create(path, body)
    for each in storage_classes():
        api.create("/apis/storage.k8s.io/v1/storageclasses", each)
