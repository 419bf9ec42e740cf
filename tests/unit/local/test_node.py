import os
import platform
import socket
from pathlib import Path

import pytest

from quintet.local.build.runtime import ContainerRuntime
from quintet.local.controlplane.ports import free_ports
from quintet.local.errors import LocalError
from quintet.local.node import config, parts
from quintet.local.node.cgroups import Cgroup, find_hierarchies
from quintet.local.node.filesystems import Filesystems
from quintet.local.node.layout import Node, list_nodes
from quintet.local.node.storage import reconcile
from quintet.local.node.volumes import SELECTED_NODE, volume_for, volumes_folder

CLAIM = {
    "metadata": {
        "name": "data",
        "namespace": "shop",
        "uid": "u-1",
        "annotations": {SELECTED_NODE: "quintet-x-1"},
    },
    "spec": {
        "storageClassName": "standard",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
    "status": {"phase": "Pending"},
}


class Api:
    """Fake API server with two lists; records writes."""

    def __init__(self, claims=(), volumes=()):
        self.lists = {"persistentvolumeclaims": list(claims), "persistentvolumes": list(volumes)}
        self.created, self.deleted = [], []

    def request(self, method, path, body=None):
        if method == "DELETE":
            self.deleted.append(path)
            return {}
        return {"items": self.lists[path.partition("?")[0].rpartition("/")[2]]}

    def create(self, path, body):
        self.created.append(body)


def filesystems_of(node):
    return Filesystems(volumes_folder(node), "mnt:[1]")


def test_node_requirements_fail_off_linux_with_reason(monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(LocalError, match="needs Linux, because pods are Linux processes; this is Darwin"):
        parts.check_requirements()


def test_node_requirements_fail_without_root_with_reason(monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LocalError, match="needs root, because") as caught:
        parts.check_requirements()
    assert "the control plane needs no root" in caught.value.next_step


def test_free_ports_are_below_range_of_outgoing_connections():
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(port < first for port in free_ports(20))


def test_free_ports_are_distinct_and_bindable():
    ports = free_ports(20)
    assert len(set(ports)) == 20
    with socket.create_server(("127.0.0.1", ports[0])):
        pass


def test_find_hierarchies_returns_one_on_cgroup_v2(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("cpu memory")
    assert find_hierarchies(tmp_path) == [tmp_path]


def test_clearing_missing_cgroup_succeeds():
    group = Cgroup("quintet-never-made-00000000")
    assert group.pids() == set()
    group.clear()


def test_provisioner_creates_world_writable_folder_for_claim(tmp_path):
    api = Api(claims=[CLAIM])
    node = Node(tmp_path / "x", 1)
    reconcile(api, node, filesystems_of(node))
    assert (node.directory / "volumes/pvc-u-1").stat().st_mode & 0o777 == 0o777
    assert api.created == [volume_for(CLAIM, node)]
    spec = api.created[0]["spec"]
    assert spec["claimRef"]["uid"] == "u-1"
    (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == [node.name]


@pytest.mark.parametrize(
    "change",
    [
        {"spec": CLAIM["spec"] | {"storageClassName": "other"}},
        {"spec": CLAIM["spec"] | {"volumeName": "chosen"}},
        {"status": {"phase": "Bound"}},
        {"metadata": CLAIM["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": CLAIM["metadata"] | {"annotations": {SELECTED_NODE: "quintet-x-2"}}},
        {"metadata": CLAIM["metadata"] | {"annotations": {}}},
    ],
    ids=[
        "other StorageClass",
        "volumeName is set",
        "already bound",
        "being deleted",
        "pod is on another node",
        "no pod yet",
    ],
)
def test_provisioner_ignores_claims_it_does_not_serve(tmp_path, change):
    api = Api(claims=[CLAIM | change])
    reconcile(api, node := Node(tmp_path / "x", 1), filesystems_of(node))
    assert api.created == []
    assert list(tmp_path.iterdir()) == []


def test_provisioner_deletes_released_volume_and_folder(tmp_path):
    node = Node(tmp_path / "x", 1)
    volume = volume_for(CLAIM, node) | {"status": {"phase": "Released"}}
    (node.directory / "volumes/pvc-u-1").mkdir(parents=True)
    api = Api(volumes=[volume])
    reconcile(api, other := Node(tmp_path / "x", 2), filesystems_of(other))
    assert api.deleted == []
    reconcile(api, node, filesystems_of(node))
    assert api.deleted == ["/api/v1/persistentvolumes/pvc-u-1"]
    assert list((node.directory / "volumes").iterdir()) == []


def test_provisioner_keeps_released_volume_with_retain_policy(tmp_path):
    node = Node(tmp_path / "x", 1)
    volume = volume_for(CLAIM, node) | {"status": {"phase": "Released"}}
    volume["spec"]["persistentVolumeReclaimPolicy"] = "Retain"
    api = Api(volumes=[volume])
    reconcile(api, node, filesystems_of(node))
    assert api.deleted == []


def test_node_configuration_writes_below_cluster_folder(tmp_path):
    node = Node(tmp_path / "x", 1)
    kubelet = config.kubelet_config(node, {})
    assert kubelet["cgroupRoot"].endswith("/node-1")
    assert kubelet["podLogsDir"].startswith(str(tmp_path))
    assert kubelet["volumePluginDir"].startswith(str(tmp_path))
    runtime = ContainerRuntime(tmp_path, tmp_path / "sbin/runc", tmp_path)
    containerd = config.containerd_config(tmp_path, runtime, "p:1", "native")
    assert f'root = "{tmp_path}/containerd"' in containerd
    assert f'BinaryName = "{tmp_path}/sbin/runc"' in containerd


def test_nodes_of_a_cluster_share_no_address_folder_or_cgroup(tmp_path):
    nodes = list_nodes(tmp_path / "x", 3, ["a", "b"])
    assert [each.name for each in nodes] == ["quintet-x-1", "quintet-x-2", "quintet-x-3"]
    assert [each.zone for each in nodes] == ["a", "b", "a"]
    for values in zip(*((n.address, n.pod_range, n.directory, n.cgroup, n.link) for n in nodes), strict=True):
        assert len(set(values)) == 3, values


@pytest.mark.parametrize(
    ("nodes", "want"), [(1, {}), (2, {"cpu": "1000m", "memory": "4096Mi"})], ids=["one", "two"]
)
def test_nodes_together_offer_the_machine_once(nodes, want):
    assert config.reserve_for_others(nodes, 2, 8 << 30) == want
