"""Starts a cluster with a real node: containerd, kubelet, kube-proxy and cluster DNS.

All its processes share one network namespace, one mount namespace and one cgroup, so none of them survives
the removal of the cluster.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from quintet.local.api import Api
from quintet.local.build import programs
from quintet.local.build.packages import SEARCH, ContainerRuntime, find_container_runtime, install_tools
from quintet.local.controlplane.certificates import Authority
from quintet.local.controlplane.layout import Layout
from quintet.local.controlplane.start import (
    start_control_plane,
    write_certificates,
    write_component_kubeconfig,
)
from quintet.local.errors import LocalError
from quintet.local.images.build import build_archives
from quintet.local.images.catalog import PAUSE
from quintet.local.node import config, namespace, storage
from quintet.local.node.cgroups import cluster_cgroup, find_hierarchies
from quintet.local.node.containerd import Containerd
from quintet.local.process import ManagedProcess, wait_while_running

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from quintet.local.controlplane.layout import StartOptions

ADDRESS = "192.168.255.2"
ETCD_PORT, PEER_PORT = 2379, 2380
TOOLS = {
    "ip": "iproute2",
    "nft": "nftables",
    "mount": "mount",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}
SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class NodeParts:
    """Programs and images of a node, found or built before anything is started."""

    runtime: ContainerRuntime
    dns: Path
    archives: dict[str, Path]

    @classmethod
    def find(cls, report: Callable[[str], None]) -> NodeParts:
        """Find the parts in the cache or on the machine; build or download what is missing."""
        install_tools(TOOLS, report)
        return cls(find_container_runtime(report), programs.build_dns(report), build_archives(report))


def check_requirements() -> None:
    """Raise an error if a node cannot run on this machine."""
    if platform.system() != "Linux":
        raise LocalError(
            f"--node needs Linux, because pods are Linux processes; this is {platform.system()}",
            "omit --node: the control plane runs here",
        )
    if os.geteuid() != 0:
        raise LocalError(
            "--node needs root, because it creates network namespaces, mounts and cgroups",
            "run the command as root, or omit --node: the control plane needs no root",
        )
    if not find_hierarchies() or not all(os.access(each, os.W_OK) for each in find_hierarchies()):
        raise LocalError(
            "--node needs writable cgroups, and /sys/fs/cgroup is not writable",
            "in a container, run it privileged; or omit --node",
        )


def start_node(options: StartOptions, directory: Path, report: Callable[[str], None]) -> tuple[Layout, str]:
    """Start the control plane and a node; return the layout and the node's name once it is Ready."""
    node = f"quintet-{options.name}"
    parts = NodeParts.find(report)
    report(f"starting the control plane and a node of cluster {options.name}")
    layout = _start_namespace(directory, options.programs)
    layout = replace(layout, durable=options.durable, audited=options.audited)
    write_certificates(layout)
    start_control_plane(layout)
    containerd = _start_containerd(layout, parts.runtime)
    _start_services(layout, node, parts)
    client = _client(layout.enter, parts.runtime)
    late = partial(containerd.failure, "does not get ready")
    wait_while_running([containerd], client.is_ready, SECONDS, late)
    _start_kubelet(layout, node)  # the kubelet exits at once if there is no container runtime
    report("loading images")
    client.load(parts.archives)
    _wait_for_node(layout, node)
    return layout, node


def refresh_images(directory: Path, report: Callable[[str], None]) -> None:
    """Load the images that have changed since the node loaded them, and report each."""
    parts = NodeParts.find(report)
    holder = ManagedProcess("namespace", directory / "processes")
    for reference in _client(_enter(holder.pid), parts.runtime).load(parts.archives):
        report(f"reloaded {reference}, which has changed; running pods keep the old image")


def _client(enter: Sequence[str], runtime: ContainerRuntime) -> Containerd:
    return Containerd((*enter, str(runtime.programs / "ctr"), "--address", config.SOCKET))


def _enter(pid: int) -> tuple[str, ...]:
    """Return the command prefix that enters the namespaces of a process."""
    folder = f"/proc/{pid}/ns"
    return ("nsenter", f"--net={folder}/net", f"--mount={folder}/mnt", "--")


def _start_namespace(directory: Path, programs: Path) -> Layout:
    group = cluster_cgroup(directory)
    group.create()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        descriptor, port = listener.fileno(), listener.getsockname()[1]
        process = ManagedProcess("namespace", directory / "processes")
        unshare = ["unshare", "--net", "--mount", "--propagation", "slave"]
        holder = [
            sys.executable,
            "-P",
            "-m",
            "quintet.local.node.namespace",
            str(descriptor),
            str(directory),
            ADDRESS,
            *namespace.namespace_ids(),
        ]
        process.start(
            [*unshare, *holder], environment={"PATH": SEARCH}, cgroup=group.system, descriptors=(descriptor,)
        )

    ready = directory / namespace.READY
    wait_while_running([process], ready.exists, SECONDS, partial(process.failure, "does not get ready"))
    return Layout(
        directory,
        programs,
        ETCD_PORT,
        PEER_PORT,
        namespace.API_PORT,
        port,
        node_address=ADDRESS,
        enter=_enter(process.pid),
        cgroup=group.system,
    )


def _start_containerd(layout: Layout, runtime: ContainerRuntime) -> ManagedProcess:
    snapshotter = "overlayfs" if _overlay_works(layout) else "native"
    path = layout.directory / "containerd.toml"
    path.write_text(config.containerd_config(layout.directory, runtime, PAUSE, snapshotter))
    network = layout.directory / "cni"
    network.mkdir()
    (network / "10-quintet.conflist").write_text(json.dumps(config.pod_network(), indent=2))
    # containerd looks up the shim on PATH.
    environment = {"PATH": os.pathsep.join((str(runtime.programs), SEARCH))}
    command = [str(runtime.programs / "containerd"), "--config", str(path)]
    return layout.run("containerd", command, environment)


def _overlay_works(layout: Layout) -> bool:
    """Return whether overlayfs works in the cluster's folder; in a container it often does not."""
    trial = layout.directory / "overlay-trial"
    for name in ("lower", "upper", "work", "merged"):
        (trial / name).mkdir(parents=True)
    layers = f"lowerdir={trial}/lower,upperdir={trial}/upper,workdir={trial}/work"
    mount = ["mount", "-t", "overlay", "-o", layers, "overlay", f"{trial}/merged"]
    # Mount in a temporary mount namespace, so that nothing needs to be unmounted.
    command = [*layout.enter, "unshare", "--mount", *mount]
    return subprocess.run(command, capture_output=True).returncode == 0


def _start_kubelet(layout: Layout, node: str) -> None:
    Authority.load(layout.pki).issue("kubelet", f"system:node:{node}", ("system:nodes",))
    kubeconfig = write_component_kubeconfig(layout, "kubelet")
    path = layout.directory / "kubelet.json"
    group = cluster_cgroup(layout.directory).name
    path.write_text(json.dumps(config.kubelet_config(layout.directory, group), indent=2))
    flags = [f"--config={path}", f"--kubeconfig={kubeconfig}", f"--root-dir={namespace.KUBELET}"]
    layout.start("kubelet", [*flags, f"--hostname-override={node}", f"--node-ip={ADDRESS}"], {"PATH": SEARCH})


def _start_services(layout: Layout, node: str, parts: NodeParts) -> None:
    """Start kube-proxy, cluster DNS and the volume provisioner."""
    proxy = config.proxy_flags(layout.pki / "kube-proxy.kubeconfig", node)
    layout.start("kube-proxy", proxy, {"PATH": SEARCH})
    corefile = layout.directory / "Corefile"
    corefile.write_text(config.corefile(ADDRESS, layout.pki / "admin.kubeconfig"))
    layout.run("dns", [str(parts.dns / "dns"), str(corefile)])
    api = Api(layout.directory, layout.outer_port)
    for path, body in config.dns_objects(ADDRESS):
        api.create(path, body)
    api.create("/apis/storage.k8s.io/v1/storageclasses", storage.STORAGE_CLASS)
    # In the node's namespaces, where paths are those that the kubelet sees.
    python = [sys.executable, "-P", "-m", "quintet.local.node.storage"]
    layout.run("storage", [*python, str(layout.directory), str(layout.api_port)])


def _wait_for_node(layout: Layout, node: str) -> None:
    api = Api(layout.directory, layout.outer_port)
    processes = [layout.process(each) for each in ("containerd", "kubelet", "kube-proxy", "dns", "storage")]

    def ready() -> bool:
        found = api.get(f"/api/v1/nodes/{node}")
        if found is None:
            return False
        conditions = found["status"].get("conditions", [])
        is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        # The taint is removed shortly after the condition; a pod created in between would stay Pending.
        return is_ready and not found["spec"].get("taints")

    late = partial(processes[1].failure, "does not make the node ready")
    wait_while_running(processes, ready, SECONDS, late)
