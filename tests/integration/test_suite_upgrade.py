"""Upgrades by the suite operator: one controller at a time, and a rollback if a version does not become ready."""

import contextlib
import json
from collections.abc import AsyncIterator, Iterable

import pytest

from kit.background import run_in_background
from kit.cluster.api import Api
from kit.cluster.simulated_node import ENDLESS, SimulatedNode
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy
from kit.kinds.suite import (
    a_flavour,
    apply_quintet,
    installed_operator,
    list_owned,
    suite_operator,
    wait_for_condition,
    wait_until_settled,
)
from quintet.apis.meta import JsonObject
from quintet.apis.suite import Quintet
from quintet.kube.client import Client
from quintet.manifests.installation import Flavour

BROKEN = "q:broken"
SOME = ["checkup", "jsonserver", "statefulcluster"]


def health(pod) -> str:
    """Report pods with the broken image as started but never ready."""
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
    async with installed_operator(api, flavour) as token, suite_operator(proxy, token, tmp_path, flavour):
        yield


def deployments(namespace: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


def is_complete(deployment) -> bool:
    status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
    current = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    return current and counts == [wanted] * 3


async def read_images(api: Api, namespace: str) -> dict[str, str]:
    listed = await api.get(deployments(namespace))
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in listed["items"]
    }


Moment = dict[str, JsonObject]
"""The Deployments by name."""


def changing_deployments(moment: Moment) -> list[str]:
    """Return the Deployments whose rollout is not complete."""
    return [name for name, each in moment.items() if not is_complete(each)]


def versions(found: Iterable[JsonObject]) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in found}


@contextlib.asynccontextmanager
async def record_deployments(api: Api, namespace: str) -> AsyncIterator[list[Moment]]:
    """Record all Deployments after every change; exit waits until the newest state was seen."""
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

    async def assert_caught_up() -> None:
        listed = await api.get(path)
        assert versions(now.values()) == versions(listed["items"])

    async with run_in_background(look()):
        yield seen
        await eventually(assert_caught_up)


async def test_controllers_are_upgraded_one_at_a_time(operator, api: Api, client: Client, namespace):
    await apply_quintet(api, controllers=SOME)
    await wait_until_settled(client)
    async with record_deployments(api, namespace) as seen:
        await apply_quintet(api, image="q:2")
        quintet = await wait_until_settled(client)
    assert set((await read_images(api, namespace)).values()) == {"q:2"}
    assert {each.version for each in quintet.status.components} == {"2"}
    moved = [changing_deployments(moment) for moment in seen]
    names = {name for moment in moved for name in moment}
    assert len(names) == len(SOME), f"not every rollout was seen: {names}"
    assert max(map(len, moved)) == 1, [moment for moment in moved if len(moment) > 1]


@pytest.mark.timeout(900)
async def test_failing_version_is_rolled_back_and_other_controllers_stay(
    api: Api, client: Client, proxy: FaultProxy, namespace, tmp_path, node
):
    patient = a_flavour(namespace)
    # Only for the broken version: on a busy machine a good one would time out too.
    impatient = a_flavour(namespace, progress_seconds=2)
    async with installed_operator(api, patient) as token:
        async with suite_operator(proxy, token, tmp_path, patient):
            await apply_quintet(api, controllers=["checkup", "jsonserver"])
            await wait_until_settled(client)
        async with suite_operator(proxy, token, tmp_path, impatient):
            await apply_quintet(api, image=BROKEN)
            await wait_for_condition(client, "Degraded", "True", "WentBack", within=180)

            async def assert_restored() -> Quintet:
                quintet = await wait_for_condition(client, "Progressing", "False", within=5)
                assert set((await read_images(api, namespace)).values()) == {"q:1"}, quintet.status
                assert {each.failed_image for each in quintet.status.components} == {BROKEN}, quintet.status
                return quintet

            await eventually(assert_restored, within=180)
            await wait_for_condition(client, "Available", "True")
        async with suite_operator(proxy, token, tmp_path, patient):
            # Another spec causes another attempt.
            await apply_quintet(api, image="q:2")
            after = await wait_until_settled(client)
            assert {each.failed_image for each in after.status.components} == {""}
            await wait_for_condition(client, "Degraded", "False")


async def test_topology_change_never_runs_controller_twice(operator, api: Api, client: Client, namespace):
    await apply_quintet(api, controllers=["checkup", "jsonserver"])
    await wait_until_settled(client)
    async with record_deployments(api, namespace) as seen:
        await apply_quintet(api, topology="Combined")
        await wait_until_settled(client, ready="2/2")
    assert await list_owned(api, deployments(namespace)) == ["quintet"]
    assert [*seen[-1]] == ["quintet"]
    assert not [[*moment] for moment in seen if "quintet" in moment and len(moment) > 1]

    async def assert_gone() -> None:
        path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        assert await list_owned(api, path) == ["quintet"]

    await eventually(assert_gone, within=60)
