"""Configuration of a node's programs: configuration files, flags and the objects of cluster DNS. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quintet.local.controlplane.layout import POD_RANGE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from quintet.local.build.runtime import ContainerRuntime
    from quintet.local.node.layout import Node

# In the node's own /run (see `namespace`).
SOCKET = "/run/containerd/containerd.sock"
DNS_ADDRESS = "10.96.0.10"
DOMAIN = "cluster.local"


def containerd_config(directory: Path, runtime: ContainerRuntime, sandbox: str, snapshotter: str) -> str:
    """Return containerd's configuration file; `directory` is the folder of the node."""
    return f"""version = 3
root = "{directory}/containerd"
state = "/run/containerd"
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{directory}/opt"
[plugins."io.containerd.nri.v1.nri"]
  # Its plugins would come from the folder /opt/nri of the machine.
  disable = true
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "{snapshotter}"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{sandbox}"
[plugins."io.containerd.cri.v1.runtime"]
  # Without CAP_SYS_RESOURCE, as in many containers and small machines, runc could not lower the score.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dir = "{runtime.plugins}"
  conf_dir = "{directory}/cni"
[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "runc"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = false
  BinaryName = "{runtime.runc}"
"""


def pod_network(pod_range: str) -> dict[str, Any]:
    """Return the CNI configuration of the pod network.

    `ptp` routes packets between pods through the node, so that responses of Services pass address
    translation; a bridge would need the kernel module br_netfilter for that.
    """
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": pod_range}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/cni",
    }
    return {"cniVersion": "1.0.0", "name": "quintet", "plugins": [{"type": "ptp", "ipam": addresses}]}


def reserve_for_others(nodes: int, cpus: int, memory: int) -> dict[str, str]:
    """Return what a kubelet reserves on a machine of this size, so that all nodes together offer it once."""
    if nodes == 1:
        return {}
    kept = (nodes - 1) / nodes
    return {"cpu": f"{int(cpus * 1000 * kept)}m", "memory": f"{int(memory * kept) >> 20}Mi"}


def kubelet_config(node: Node, reserved: Mapping[str, str]) -> dict[str, Any]:
    """Return the kubelet's configuration; `reserved` is subtracted from what the node offers to pods."""
    directory = node.directory
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(node.cluster / "pki/ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": node.cgroup.path,
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "systemReserved": dict(reserved),
        "clusterDomain": DOMAIN,
        "clusterDNS": [DNS_ADDRESS],
        # Pods resolve only the cluster's names: the network namespace has no route outside.
        "resolvConf": "",
        "podLogsDir": str(directory / "pod-logs"),
        "volumePluginDir": str(directory / "volume-plugins"),
        # Images cannot be pulled again, so never garbage-collect them.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
        },
    }


def proxy_flags(kubeconfig: Path, node: str) -> list[str]:
    """Return kube-proxy's flags; conntrack limits stay unset because they apply to the whole machine."""
    return [
        f"--kubeconfig={kubeconfig}",
        "--proxy-mode=nftables",
        f"--hostname-override={node}",
        f"--cluster-cidr={POD_RANGE}",
        "--conntrack-max-per-core=0",
    ]


def corefile(address: str, kubeconfig: Path) -> str:
    """Return the Corefile of cluster DNS."""
    return f""".:53 {{
  bind {address}
  errors
  kubernetes {DOMAIN} in-addr.arpa {{
    kubeconfig {kubeconfig}
    pods verified
    ttl 5
  }}
  cache 5
  loadbalance
}}
"""


def node_object(node: Node) -> dict[str, Any]:
    """Return the Node object, to which the kubelet adds the rest."""
    spec = {"podCIDR": node.pod_range, "podCIDRs": [node.pod_range]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name}, "spec": spec}


def dns_objects(address: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the Service and the EndpointSlice of cluster DNS, each with its API path."""
    name, namespace = "kube-dns", "kube-system"
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": DNS_ADDRESS, "ports": ports},
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{name}-node",
            "namespace": namespace,
            "labels": {"kubernetes.io/service-name": name},
        },
        "addressType": "IPv4",
        "ports": ports,
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }
    return [
        (f"/api/v1/namespaces/{namespace}/services", service),
        (f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", endpoints),
    ]
