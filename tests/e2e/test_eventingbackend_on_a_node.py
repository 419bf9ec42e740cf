"""An EventingBackend with its own NATS server in real pods: it starts, and recovers when the server is killed."""

import pytest

from e2e.kubectl_client import KubectlClient, find_condition, find_forbidden_requests
from kit.eventually import eventually
from kit.kinds.eventingbackends import a_backend

# test_events_on_a_node.py tests a backend with events.
pytestmark = [pytest.mark.node, pytest.mark.exhaustive]

PARTS = ("bus-nats", "bus-publisher-proxy", "bus-dispatcher")


def pods(client: KubectlClient, part: str) -> list[dict]:
    found = client.get("pods", "", "-l", f"eventing.kyma-project.io/backend={part}")["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


@pytest.fixture
async def bus(shared_client: KubectlClient) -> KubectlClient:
    """A namespace with a ready backend."""
    shared_client.apply(a_backend("bus", maxBytes="32Mi", dispatcherReplicas=1))
    await shared_client.wait("evb/bus", "--for=condition=Ready")
    return shared_client


@pytest.mark.timeout(600)
async def test_backend_without_url_gets_own_nats_server_and_becomes_ready(bus: KubectlClient):
    status = bus.get("evb", "bus")["status"]
    assert (status["backendType"], status["eventingReady"]) == ("nats", True)
    counts = {part: len(pods(bus, part)) for part in PARTS}
    assert counts == {"bus-nats": 1, "bus-publisher-proxy": 2, "bus-dispatcher": 1}
    for part in PARTS:
        for pod in pods(bus, part):
            assert find_condition(pod, "Ready")["status"] == "True"
    (claim,) = bus.get("pvc")["items"]
    assert claim["status"]["phase"] == "Bound"
    shown = bus.kubectl("get", "evb", "bus").splitlines()[1].split()
    assert shown[:5] == ["bus", "nats", "true", "True", "True"]


@pytest.mark.timeout(600)
async def test_backend_reports_killed_nats_server_and_recovers(bus: KubectlClient):
    (before,) = pods(bus, "bus-nats")
    was = find_condition(bus.get("evb", "bus"), "Backend Ready")
    bus.kubectl("delete", "pod", before["metadata"]["name"], "--grace-period=0", "--force")

    def assert_reported_missing() -> None:
        now = find_condition(bus.get("evb", "bus"), "Backend Ready")
        # It may have recovered between two reads, which changes the transition time.
        assert (now["status"], now["lastTransitionTime"]) != ("True", was["lastTransitionTime"]), now

    await eventually(assert_reported_missing, within=120)

    def assert_ready_again() -> None:
        (after,) = pods(bus, "bus-nats")
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert bus.get("evb", "bus")["status"]["eventingReady"]

    await eventually(assert_ready_again, within=180)


@pytest.mark.timeout(600)
async def test_deleted_backend_leaves_only_its_persistentvolumeclaim(bus: KubectlClient):
    bus.kubectl("delete", "evb", "bus", "--timeout=120s")

    def assert_deleted() -> None:
        left = bus.kubectl(
            "get", "pods,services,deployments,statefulsets,serviceaccounts,roles", "-o", "name"
        )
        assert [name for name in left.split() if "bus-" in name] == [], left

    await eventually(assert_deleted, within=180)
    assert len(bus.get("pvc")["items"]) == 1, "the events of the user are gone"


async def test_operator_log_has_no_forbidden_requests(operator: KubectlClient):
    assert find_forbidden_requests(operator) == []
