"""Upgrades by the suite operator: one controller at a time, and back if a version does not come up."""

import contextlib
import json
from collections.abc import AsyncIterator, Iterable

import pytest

from kit.background import meanwhile
from kit.cluster.api import Api
from kit.cluster.simulated_node import ENDLESS, SimulatedNode
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy
from kit.kinds.suite import a_flavour, owned, prepared, settled, suite_operator, wanted, with_condition
from quintet.apis.meta import JsonObject
from quintet.apis.suite import Quintet
from quintet.kube.client import Client
from quintet.manifests.installation import Flavour

BROKEN = "q:broken"
SOME = ["checkup", "jsonserver", "statefulcluster"]


def health(pod) -> str:
    """Pods of the broken image start and never serve."""
    return "Running" if pod["spec"]["containers"][0]["image"] == BROKEN else "Ready"


@pytest.fixture
def flavour(namespace) -> Flavour:
    return a_flavour(namespace)


@pytest.fixture
async def node(api: Api, namespace) -> AsyncIterator[SimulatedNode]:
    async with SimulatedNode(api, namespace=namespace, health=health).running() as running:
        yield running


@pytest.fixture
async def operator(api: Api, proxy: FaultProxy, flavour: Flavour, tmp_path, node) -> AsyncIterator[None]:
    async with prepared(api, flavour) as token, suite_operator(proxy, token, tmp_path, flavour):
        yield


def deployments(namespace: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


def complete(deployment) -> bool:
    status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
    current = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    return current and counts == [wanted] * 3


async def images(api: Api, namespace: str) -> dict[str, str]:
    listed = await api.get(deployments(namespace))
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in listed["items"]
    }


Moment = dict[str, JsonObject]
"""The Deployments by name."""


def moving(moment: Moment) -> list[str]:
    """Those that are on their way."""
    return [name for name, each in moment.items() if not complete(each)]


def versions(found: Iterable[JsonObject]) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in found}


@contextlib.asynccontextmanager
async def recorded(api: Api, namespace: str) -> AsyncIterator[list[Moment]]:
    """All Deployments after every change; left only once every change until then was seen."""
    path, seen = deployments(namespace), list[Moment]()
    listed = await api.get(path)
    now = {each["metadata"]["name"]: each for each in listed["items"]}
    params = {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}

    async def look() -> None:
        async with api.session.get(
            api.server + path, params=params, timeout=ENDLESS, read_bufsize=2**20
        ) as answer:
            async for line in answer.content:
                event = json.loads(line)
                changed = event["object"]
                now[changed["metadata"]["name"]] = changed
                if event["type"] == "DELETED":
                    del now[changed["metadata"]["name"]]
                seen.append(dict(now))

    async def caught_up() -> None:
        listed = await api.get(path)
        assert versions(now.values()) == versions(listed["items"])

    async with meanwhile(look()):
        yield seen
        await eventually(caught_up)


async def test_controllers_are_upgraded_one_at_a_time(operator, api: Api, client: Client, namespace):
    await wanted(api, controllers=SOME)
    await settled(client)
    async with recorded(api, namespace) as seen:
        await wanted(api, image="q:2")
        quintet = await settled(client)
    assert set((await images(api, namespace)).values()) == {"q:2"}
    assert {each.version for each in quintet.status.components} == {"2"}
    moved = [moving(moment) for moment in seen]
    names = {name for moment in moved for name in moment}
    assert len(names) == len(SOME), f"not every rollout was seen: {names}"
    assert max(map(len, moved)) == 1, [moment for moment in moved if len(moment) > 1]


@pytest.mark.timeout(900)
async def test_failing_version_is_rolled_back_and_other_controllers_stay(
    api: Api, client: Client, proxy: FaultProxy, namespace, tmp_path, node
):
    patient = a_flavour(namespace)
    # Only while the broken version is tried: a good one on a busy machine would be given up, too.
    impatient = a_flavour(namespace, progress_seconds=2)
    async with prepared(api, patient) as token:
        async with suite_operator(proxy, token, tmp_path, patient):
            await wanted(api, controllers=["checkup", "jsonserver"])
            await settled(client)
        async with suite_operator(proxy, token, tmp_path, impatient):
            await wanted(api, image=BROKEN)
            await with_condition(client, "Degraded", "True", "WentBack", within=180)

            async def back() -> Quintet:
                quintet = await with_condition(client, "Progressing", "False", within=5)
                assert set((await images(api, namespace)).values()) == {"q:1"}, quintet.status
                assert {each.failed_image for each in quintet.status.components} == {BROKEN}, quintet.status
                return quintet

            await eventually(back, within=180)
            await with_condition(client, "Available", "True")
        async with suite_operator(proxy, token, tmp_path, patient):
            # Another spec is another attempt.
            await wanted(api, image="q:2")
            after = await settled(client)
            assert {each.failed_image for each in after.status.components} == {""}
            await with_condition(client, "Degraded", "False")


async def test_topology_change_never_runs_controller_twice(operator, api: Api, client: Client, namespace):
    await wanted(api, controllers=["checkup", "jsonserver"])
    await settled(client)
    async with recorded(api, namespace) as seen:
        await wanted(api, topology="Combined")
        await settled(client, ready="2/2")
    assert await owned(api, deployments(namespace)) == ["quintet"]
    assert [*seen[-1]] == ["quintet"]
    assert not [[*moment] for moment in seen if "quintet" in moment and len(moment) > 1]

    async def gone() -> None:
        path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        assert await owned(api, path) == ["quintet"]

    await eventually(gone, within=60)
