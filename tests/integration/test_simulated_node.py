"""The simulated node treats pods as a scheduler and a kubelet would."""

import pytest

from kit.cluster.api import Api
from kit.cluster.simulated_node import NODE, SimulatedNode
from kit.eventually import eventually
from kit.faults.proxy import Answer, Refuse, matching


def a_pod(name: str) -> dict:
    spec = {
        "containers": [{"name": "main", "image": "quintet.local/x:1"}],
        "terminationGracePeriodSeconds": 30,
    }
    return {"metadata": {"name": name}, "spec": spec}


async def read_pod_state(api: Api, path: str) -> tuple[str, str, str]:
    """Return node, phase and readiness of a pod."""
    pod = await api.get(path)
    return pod["spec"].get("nodeName", ""), pod["status"]["phase"], condition(pod, "Ready")


def condition(pod: dict, name: str) -> str:
    found = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
    return found.get(name, "")


@pytest.fixture
def path(namespace) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


async def test_simulated_node_makes_pods_ready_and_removes_deleted_ones(api, namespace, path):
    async with SimulatedNode(api, namespace=namespace).running() as node:
        for name in ("a", "b"):
            await api.create(path, a_pod(name))

        async def assert_ready() -> None:
            for name in ("a", "b"):
                assert await read_pod_state(api, f"{path}/{name}") == (NODE, "Running", "True")

        await eventually(assert_ready)
        await api.delete(f"{path}/a")

        async def assert_gone() -> None:
            assert not await api.exists(f"{path}/a")

        await eventually(assert_gone)
        # Repeated if the scheduler writes in between.
        assert node.requests["POST", "pods/binding"] >= 2


async def test_simulated_node_reports_pod_health_chosen_by_test(api, namespace, path):
    healths = {"waits": "Pending", "slow": "Running", "broken": "Failed"}
    node = SimulatedNode(api, namespace=namespace, health=lambda pod: healths[pod["metadata"]["name"]])
    async with node.running():
        for name in healths:
            await api.create(path, a_pod(name))

        async def assert_health() -> None:
            assert (await read_pod_state(api, f"{path}/waits"))[1] == "Pending"
            assert await read_pod_state(api, f"{path}/slow") == (NODE, "Running", "False")
            assert await read_pod_state(api, f"{path}/broken") == (NODE, "Failed", "False")

        await eventually(assert_health)
        healths["slow"] = "Ready"
        node.sync_all()

        async def assert_ready() -> None:
            assert await read_pod_state(api, f"{path}/slow") == (NODE, "Running", "True")

        await eventually(assert_ready)


async def test_simulated_node_retries_when_api_server_is_overloaded(api, proxy, proxied, namespace, path):
    faults = [
        proxy.inject(Refuse(), when=matching("list", "pods")),
        proxy.inject(Answer(429, "TooManyRequests"), when=matching("watch", "pods")),
        proxy.inject(Answer(503, "ServiceUnavailable"), when=matching("create", subresource="binding")),
        proxy.inject(Refuse(), when=matching("patch", "pods", subresource="status")),
    ]
    async with SimulatedNode(proxied, namespace=namespace).running():
        await api.create(path, a_pod("a"))

        async def assert_ready() -> None:
            assert await read_pod_state(api, f"{path}/a") == (NODE, "Running", "True")

        await eventually(assert_ready)
    assert [each.left for each in faults] == [0, 0, 0, 0]


async def test_simulated_node_overwrites_late_unschedulable_condition(api, namespace, path):
    async with SimulatedNode(api, namespace=namespace).running():
        await api.create(path, a_pod("a"))

        async def assert_scheduled() -> None:
            assert await read_pod_state(api, f"{path}/a") == (NODE, "Running", "True")
            assert condition(await api.get(f"{path}/a"), "PodScheduled") == "True"

        await eventually(assert_scheduled)
        late = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        pod = await api.get(f"{path}/a")
        others = [each for each in pod["status"]["conditions"] if each["type"] != "PodScheduled"]
        await api.merge(f"{path}/a/status", {"status": {"conditions": [*others, late]}})
        await eventually(assert_scheduled)
