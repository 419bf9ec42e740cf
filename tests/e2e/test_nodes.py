"""A cluster with several nodes: network between them, volumes, and nodes that fail and return."""

import json
from collections.abc import Iterator

import pytest

from e2e.commands import eventually, kubectl
from e2e.machine_state import CLUSTER, MachineState
from e2e.nodes import IMAGE, is_ready, pods, quintet, request, web
from kit.cluster.control_plane import cluster_with_nodes
from quintet.local import cluster as local
from quintet.local.cluster import Cluster

pytestmark = pytest.mark.node

CLASSES = ("standard", "exact")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of two nodes, with a pod of the Service `web` on each."""
    state = tmp_path_factory.mktemp("pair")
    before = MachineState.read(state)
    with cluster_with_nodes(CLUSTER, state, 2, ("a", "b")) as cluster:
        kubectl(cluster, "apply", "-f", "-", input=json.dumps(web()))
        kubectl(cluster, "rollout", "status", "deployment/web", "--timeout=120s")
        yield cluster
    eventually(
        lambda: MachineState.read(state).added_since(before).keys() <= {"files"},
        "nothing is left",
        lambda: str(MachineState.read(state).added_since(before)),
    )


def test_nodes_have_names_zones_and_a_share_of_the_machine(pair):
    items = json.loads(kubectl(pair, "get", "nodes", "-o", "json"))["items"]
    zones = {
        each["metadata"]["name"]: each["metadata"]["labels"]["topology.kubernetes.io/zone"] for each in items
    }
    assert zones == {f"quintet-{CLUSTER}-1": "a", f"quintet-{CLUSTER}-2": "b"}
    one = items[0]["status"]
    assert one["allocatable"]["cpu"] != one["capacity"]["cpu"]


def test_pods_of_different_nodes_reach_each_other_by_address_and_service(pair):
    one, two = (pods(pair)[node] for node in pair.nodes)
    assert request(pair, one["name"], f"http://{two['address']}:8080") == two["name"]
    assert request(pair, two["name"], f"http://{one['address']}:8080") == one["name"]
    # Every response comes from either pod, chosen by chance: both must answer on both nodes.
    for asking in (one, two):
        seen: set[str] = set()

        def both(asking: dict[str, str] = asking, seen: set[str] = seen) -> bool:
            seen.add(request(pair, asking["name"], "http://web.default.svc.cluster.local"))
            return seen >= {one["name"], two["name"]}

        eventually(both, "responses of both pods", lambda seen=seen: str(seen))


def test_second_up_with_other_number_of_nodes_or_zones_is_refused(pair, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(pair.directory.parents[2]))
    assert local.up(CLUSTER) == pair
    with pytest.raises(local.LocalError, match="already runs, with 2 nodes"):
        local.up(CLUSTER, nodes=3)
    with pytest.raises(local.LocalError, match="already runs, with the zones a, b"):
        local.up(CLUSTER, nodes=2, zones=("a", "c"))


def test_partitioned_node_is_unreachable_until_healed(pair):
    one, two = (pods(pair)[node] for node in pair.nodes)
    assert "disconnected node" in quintet(pair, "node", "partition", pair.nodes[1])
    assert request(pair, one["name"], f"http://{two['address']}:8080") == ""
    quintet(pair, "node", "heal", "2", "--name", CLUSTER)
    eventually(
        lambda: request(pair, one["name"], f"http://{two['address']}:8080") == two["name"], "a response"
    )
    assert is_ready(pair, pair.nodes[1])


def claims_and_pod(name: str) -> dict[str, object]:
    """Return a claim of each StorageClass, and a pod that waits and uses them."""
    requests = {"storage": "8Mi"}
    claims = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": each},
            "spec": {
                "storageClassName": each,
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": requests},
            },
        }
        for each in CLASSES
    ]
    return {"apiVersion": "v1", "kind": "List", "items": [*claims, pod_with_claims(name)]}


def pod_with_claims(name: str) -> dict[str, object]:
    mounts = [{"name": each, "mountPath": f"/{each}"} for each in CLASSES]
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "infinity"], "volumeMounts": mounts}
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in CLASSES]
    spec = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_stopped_node_is_not_ready_its_pods_move_and_its_volumes_return_with_it(pair, monkeypatch):
    kubectl(pair, "apply", "-f", "-", input=json.dumps(claims_and_pod("kept")))
    kubectl(pair, "wait", "pod/kept", "--for=condition=Ready", "--timeout=120s")
    kubectl(pair, "exec", "kept", "--", "sh", "-c", "echo here | tee /standard/file >/exact/file")
    node = kubectl(pair, "get", "pod", "kept", "-o", "jsonpath={.spec.nodeName}")
    (other,) = set(pair.nodes) - {node}
    quintet(pair, "node", "stop", node)
    monkeypatch.setenv("XDG_STATE_HOME", str(pair.directory.parents[2]))
    assert local.up(CLUSTER) == pair, "a stopped node is not a broken cluster"
    eventually(lambda: not is_ready(pair, node), f"{node} is not ready", seconds=90)
    kubectl(pair, "delete", "pod", "kept", "--force", "--wait=false")
    kubectl(pair, "apply", "-f", "-", input=json.dumps(pod_with_claims("again")))
    eventually(lambda: set(pods(pair)) == {other}, "pods only on the other node", lambda: str(pods(pair)), 90)
    # Its volumes are on the stopped node, so this pod must not start anywhere else.
    assert kubectl(pair, "get", "pod", "again", "-o", "jsonpath={.spec.nodeName}") == ""
    assert "is Ready" in quintet(pair, "node", "start", node)
    assert is_ready(pair, node)
    kubectl(pair, "wait", "pod/again", "--for=condition=Ready", "--timeout=120s")
    assert kubectl(pair, "exec", "again", "--", "cat", "/standard/file", "/exact/file") == "here\nhere\n"
    assert kubectl(pair, "get", "pod", "again", "-o", "jsonpath={.spec.nodeName}") == node
