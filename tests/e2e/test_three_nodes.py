"""The story of a cluster with three nodes: network, a node that fails and returns, a partition, and `down`."""

import json
from collections.abc import Iterator

import pytest

from e2e.commands import eventually, kubectl
from e2e.machine_state import CLUSTER, MachineState
from e2e.nodes import is_ready, pods, quintet, request, web
from kit.cluster.control_plane import cluster_with_nodes
from quintet.local.cluster import Cluster

pytestmark = [pytest.mark.node, pytest.mark.exhaustive, pytest.mark.slow, pytest.mark.timeout(1200)]

NAMES = ("web", "web.default", "web.default.svc.cluster.local")
# Until a node is NotReady and its pods are evicted, on a busy machine.
PATIENCE = 180


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of three nodes in three zones, with a pod of the Service `web` on each."""
    state = tmp_path_factory.mktemp("three")
    before = MachineState.read(state)
    with cluster_with_nodes(CLUSTER, state, 3, ("a", "b", "c")) as cluster:
        kubectl(cluster, "apply", "-f", "-", input=json.dumps(web(3)))
        kubectl(cluster, "rollout", "status", "deployment/web", "--timeout=300s")
        yield cluster
    eventually(
        lambda: MachineState.read(state).added_since(before).keys() <= {"files"},
        "nothing is left",
        lambda: str(MachineState.read(state).added_since(before)),
    )


def wait_for_pods_on(cluster: Cluster, *nodes: str) -> None:
    eventually(
        lambda: set(pods(cluster)) == set(nodes), f"pods on {nodes}", lambda: str(pods(cluster)), PATIENCE
    )


def scale(cluster: Cluster, replicas: int) -> None:
    kubectl(cluster, "scale", "deployment/web", f"--replicas={replicas}")
    eventually(
        lambda: len(pods(cluster)) == replicas, f"{replicas} pods", lambda: str(pods(cluster)), PATIENCE
    )


def spread_again(cluster: Cluster) -> None:
    """Start all pods anew, one per node: pods do not move back by themselves."""
    scale(cluster, 0)
    scale(cluster, len(cluster.nodes))
    kubectl(cluster, "rollout", "status", "deployment/web", "--timeout=300s")
    wait_for_pods_on(cluster, *cluster.nodes)


def assert_pods_reach_each_other(cluster: Cluster, *nodes: str) -> None:
    """Assert that the pods of these nodes reach each other by address, and the Service by each of its names."""
    running = pods(cluster)
    for one in nodes:
        for other in nodes:
            url, want = f"http://{running[other]['address']}:8080", running[other]["name"]

            def responds(one: str = one, url: str = url, want: str = want) -> bool:
                return request(cluster, running[one]["name"], url) == want

            eventually(responds, f"{one} reaches {other}", seconds=PATIENCE)
        for name in NAMES:
            url = f"http://{name}"

            def answers(one: str = one, url: str = url) -> bool:
                return request(cluster, running[one]["name"], url) in {
                    each["name"] for each in running.values()
                }

            eventually(answers, f"{one} reaches {name}", seconds=PATIENCE)


def test_pods_services_and_names_work_between_three_nodes(three: Cluster) -> None:
    assert set(pods(three)) == set(three.nodes)
    assert_pods_reach_each_other(three, *three.nodes)


def test_pods_of_killed_node_run_elsewhere_until_it_returns(three: Cluster) -> None:
    one, two, lost = three.nodes
    quintet(three, "node", "stop", lost)
    eventually(lambda: not is_ready(three, lost), f"{lost} is not ready", seconds=PATIENCE)
    wait_for_pods_on(three, one, two)
    assert_pods_reach_each_other(three, one, two)
    assert "is Ready" in quintet(three, "node", "start", lost)
    spread_again(three)
    assert_pods_reach_each_other(three, *three.nodes)


def test_pods_of_partitioned_node_run_elsewhere_until_it_is_healed(three: Cluster) -> None:
    one, two, lost = three.nodes
    before = pods(three)[lost]["name"]
    quintet(three, "node", "partition", lost)
    eventually(lambda: not is_ready(three, lost), f"{lost} is not ready", seconds=PATIENCE)
    wait_for_pods_on(three, one, two)
    # Its kubelet cannot be told: the pod goes on running there.
    assert three.kubectl("get", "pod", before).returncode == 0
    quintet(three, "node", "heal", lost)
    eventually(lambda: is_ready(three, lost), f"{lost} is ready", seconds=PATIENCE)
    eventually(
        lambda: three.kubectl("get", "pod", before).returncode != 0, f"{before} is gone", seconds=PATIENCE
    )
    spread_again(three)
    assert_pods_reach_each_other(three, *three.nodes)
