"""Starts the programs of one node: its namespaces, containerd, kubelet, kube-proxy and volume provisioner.

Starting a node that was stopped is the same as starting it the first time: what it keeps is on its disk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

from quintet.local import teardown
from quintet.local.api import Api
from quintet.local.build.packages import SEARCH
from quintet.local.controlplane.certificates import Authority
from quintet.local.controlplane.start import write_component_kubeconfig
from quintet.local.images.catalog import PAUSE
from quintet.local.node import config, namespace
from quintet.local.node.containerd import Containerd
from quintet.local.node.layout import SWITCH_ADDRESS, Node
from quintet.local.process import ManagedProcess, wait_while_running

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from quintet.local.build.runtime import ContainerRuntime
    from quintet.local.controlplane.layout import Layout

SECONDS = 120.0
OUTSIDE = ("unshare", "--net", "--mount", "--propagation", "slave")


def start_runtime(node: Node, nodes: Sequence[Node], runtime: ContainerRuntime) -> Containerd:
    """Start the namespaces and containerd of a node; return the client when containerd responds."""
    node.directory.mkdir(parents=True, exist_ok=True)
    _start_namespace(node, nodes)
    snapshotter = "overlayfs" if _overlay_works(node) else "native"
    path = node.directory / "containerd.toml"
    path.write_text(config.containerd_config(node.directory, runtime, PAUSE, snapshotter))
    network = node.directory / "cni"
    network.mkdir(exist_ok=True)
    (network / "10-quintet.conflist").write_text(json.dumps(config.pod_network(node.pod_range), indent=2))
    # containerd looks up the shim on PATH.
    environment = {"PATH": os.pathsep.join((str(runtime.programs), SEARCH))}
    process = node.run(
        "containerd", [str(runtime.programs / "containerd"), "--config", str(path)], environment
    )
    client = find_client(node, runtime)
    # The kubelet would exit without a container runtime.
    wait_while_running([process], client.is_ready, SECONDS, partial(process.failure, "does not get ready"))
    return client


def find_client(node: Node, runtime: ContainerRuntime) -> Containerd:
    """Return the client of a node's containerd."""
    return Containerd((*node.enter(), str(runtime.programs / "ctr"), "--address", config.SOCKET))


def start_programs(node: Node, layout: Layout) -> None:
    """Start kubelet, kube-proxy and the volume provisioner of a node; the API server runs."""
    Api(layout.directory, layout.outer_port).create("/api/v1/nodes", config.node_object(node))
    _start_kubelet(node, layout)
    proxy = config.proxy_flags(layout.pki / "kube-proxy.kubeconfig", node.name)
    node.run("kube-proxy", [str(layout.programs / "kube-proxy"), *proxy], {"PATH": SEARCH})
    # In the node's namespaces, where paths are those that the kubelet sees.
    provisioner = [sys.executable, "-P", "-m", "quintet.local.node.storage", str(layout.directory)]
    address = (SWITCH_ADDRESS, str(layout.api_port))
    outside = ",".join(namespace.namespace_ids())
    node.run("storage", [*provisioner, str(node.number), *address, outside], {"PATH": SEARCH})


def wait_for_nodes(nodes: Sequence[Node], layout: Layout) -> None:
    """Wait until nodes are Ready and pods can be scheduled there."""
    api = Api(layout.directory, layout.outer_port)
    programs = ("containerd", "kubelet", "kube-proxy", "storage")
    processes = [node.process(program) for node in nodes for program in programs]

    def is_usable(node: Node) -> bool:
        found = api.get(f"/api/v1/nodes/{node.name}")
        # The taint is removed shortly after the condition; a pod created in between would stay Pending.
        return found is not None and is_ready(found) and not found["spec"].get("taints")

    waiting = list(nodes)

    def done() -> bool:
        waiting[:] = [node for node in waiting if not is_usable(node)]
        return not waiting

    late = partial(nodes[0].process("kubelet").failure, "does not make the node ready")
    wait_while_running(processes, done, SECONDS, late)


def is_ready(found: Mapping[str, object]) -> bool:
    """Return whether a Node object has the condition Ready."""
    status = found.get("status")
    conditions = status.get("conditions", ()) if isinstance(status, dict) else ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def holder_command(role: str, network: namespace.Network, ready: Path, *rest: str) -> list[str]:
    """Return the command of a process that holds namespaces."""
    module = [sys.executable, "-P", "-m", "quintet.local.node.namespace"]
    return [*module, role, network.to_json(), str(ready), ",".join(namespace.namespace_ids()), *rest]


def _start_namespace(node: Node, nodes: Sequence[Node]) -> None:
    node.cgroup.create()
    ready = node.directory / namespace.READY
    teardown.remove_file(ready, within=node.directory)
    switch = ManagedProcess("namespace", node.cluster / "processes").pid
    routes = {other.pod_range: other.address for other in nodes if other != node}
    network = namespace.Network(node.address, routes, switch, node.link)
    command = holder_command("node", network, ready, str(node.cluster), str(node.directory))
    process = node.process("namespace")
    process.start([*OUTSIDE, *command], environment={"PATH": SEARCH}, cgroup=node.cgroup.system)
    late = partial(process.failure, "does not get ready")
    wait_while_running([process], ready.exists, SECONDS, late)


def _overlay_works(node: Node) -> bool:
    """Return whether overlayfs works in the node's folder; in a container it often does not."""
    trial = node.directory / "overlay-trial"
    for name in ("lower", "upper", "work", "merged"):
        (trial / name).mkdir(parents=True, exist_ok=True)
    layers = f"lowerdir={trial}/lower,upperdir={trial}/upper,workdir={trial}/work"
    mount = ["mount", "-t", "overlay", "-o", layers, "overlay", f"{trial}/merged"]
    # Mount in a temporary mount namespace, so that nothing needs to be unmounted.
    return subprocess.run([*node.enter(), "unshare", "--mount", *mount], capture_output=True).returncode == 0


def _start_kubelet(node: Node, layout: Layout) -> None:
    name = f"kubelet-{node.number}"
    Authority.load(layout.pki).issue(name, f"system:node:{node.name}", ("system:nodes",))
    kubeconfig = write_component_kubeconfig(layout, name)
    path = node.directory / "kubelet.json"
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    reserved = config.reserve_for_others(layout.nodes, os.cpu_count() or 1, memory)
    path.write_text(json.dumps(config.kubelet_config(node, reserved), indent=2))
    flags = [f"--config={path}", f"--kubeconfig={kubeconfig}", f"--root-dir={namespace.KUBELET}"]
    flags += [f"--hostname-override={node.name}", f"--node-ip={node.address}"]
    flags += [f"--node-labels=topology.kubernetes.io/zone={node.zone}"] if node.zone else []
    node.run("kubelet", [str(layout.programs / "kubelet"), *flags], {"PATH": SEARCH})
