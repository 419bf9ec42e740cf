"""The node that only pretends does to pods what a scheduler and a kubelet would."""

import pytest

from kit.api import Api
from kit.eventually import eventually
from kit.kubelet import NODE, PretendedNode


def a_pod(name: str) -> dict:
    spec = {
        "containers": [{"name": "main", "image": "quintet.local/x:1"}],
        "terminationGracePeriodSeconds": 30,
    }
    return {"metadata": {"name": name}, "spec": spec}


async def shown(api: Api, path: str) -> tuple[str, str, str]:
    """Where the pod is, its phase, and whether it is ready."""
    pod = await api.get(path)
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
    return pod["spec"].get("nodeName", ""), pod["status"]["phase"], conditions.get("Ready", "")


@pytest.fixture
async def path(api, namespace) -> str:
    """Of the pods of a namespace that is ready for some."""

    async def account() -> None:
        await api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default")

    await eventually(account)
    return f"/api/v1/namespaces/{namespace}/pods"


async def test_pods_become_ready_and_deleted_ones_go(api, namespace, path):
    async with PretendedNode(api, namespace=namespace).running() as node:
        for name in ("a", "b"):
            await api.create(path, a_pod(name))

        async def ready() -> None:
            for name in ("a", "b"):
                assert await shown(api, f"{path}/{name}") == (NODE, "Running", "True")

        await eventually(ready)
        await api.delete(f"{path}/a")

        async def gone() -> None:
            assert not await api.exists(f"{path}/a")

        await eventually(gone)
        # More than once where the scheduler's word about a pod comes in between.
        assert node.requests["POST", "pods/binding"] >= 2


async def test_a_test_decides_how_a_pod_is(api, namespace, path):
    healths = {"waits": "Pending", "slow": "Running", "broken": "Failed"}
    node = PretendedNode(api, namespace=namespace, health=lambda pod: healths[pod["metadata"]["name"]])
    async with node.running():
        for name in healths:
            await api.create(path, a_pod(name))

        async def as_told() -> None:
            assert (await shown(api, f"{path}/waits"))[1] == "Pending"
            assert await shown(api, f"{path}/slow") == (NODE, "Running", "False")
            assert await shown(api, f"{path}/broken") == (NODE, "Failed", "False")

        await eventually(as_told)
        healths["slow"] = "Ready"
        node.look_again()

        async def ready() -> None:
            assert await shown(api, f"{path}/slow") == (NODE, "Running", "True")

        await eventually(ready)
