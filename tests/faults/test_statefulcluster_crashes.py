"""The operator dies, or an answer is lost, at any write of a StatefulCluster's life.

The story: made, scaled up, updated, a pod lost, scaled down, deleted. Whatever is hit, the end of every chapter is
the same: exactly the wanted pods, each on a claim group of its own, none leaked, none doubled. `kit.faults.scenarios` says
which writes are hit on which level.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kit.background import meanwhile
from kit.cluster.api import Api
from kit.cluster.control_plane import fresh_namespace
from kit.cluster.simulated_node import SimulatedNode
from kit.eventually import eventually
from kit.faults.operators import operator_of
from kit.faults.proxy import FaultProxy, matching
from kit.faults.scenarios import (
    ANSWER_LOST,
    CONFLICT,
    ESSENTIAL,
    KILLED_AFTER,
    KILLED_BEFORE,
    PATIENCE,
    TROUBLE,
    hit_by,
    keep_running,
    side_by_side,
)
from kit.kinds.statefulclusters import CONTEXT, a_cluster, claims, claims_of, get, names, pods, revisions
from kit.process import Program
from quintet.apis.meta import Object, ObjectKey
from quintet.apis.statefulcluster import STATEFULCLUSTERS
from quintet.controllers.statefulcluster.decide.desired import PODS
from quintet.kube.client import Client

POLICY = {"whenScaled": "Delete", "whenDeleted": "Delete"}


async def exactly(client: Client, namespace: str, replicas: int) -> None:
    """As many pods as wanted, each with claims of its own, and no claim beside these."""
    key = ObjectKey(namespace, "web")

    async def probe() -> None:
        cluster = await get(client, key)
        status = cluster.status
        assert status.observed_generation == cluster.metadata.generation, status
        assert status.plan[0].reason == "AsWanted", status
        found = await pods(client, namespace)
        mounted = sorted(claim for pod in found for claim in claims_of(pod))
        assert len(found) == replicas, status
        assert sorted(status.replica_names) == names(found), status
        assert names(await claims(client, namespace)) == mounted, status
        assert len(set(mounted)) == 2 * replicas, mounted
        assert (status.draws, status.retiring) == ((), ()), status

    await eventually(probe, within=PATIENCE)


async def tell(client: Client, namespace: str) -> None:
    """The story."""
    key = ObjectKey(namespace, "web")
    spec = {"replicas": 1, "claims": ("data", "log"), "persistentVolumeClaimRetentionPolicy": POLICY}
    await client.create(STATEFULCLUSTERS, a_cluster(**spec), Object, namespace=namespace)
    await exactly(client, namespace, 1)
    await client.patch(STATEFULCLUSTERS, key, {"spec": {"replicas": 2}}, Object)
    await exactly(client, namespace, 2)
    before = names(await pods(client, namespace))
    template = a_cluster(image="web:2")["spec"]["template"]
    await client.patch(STATEFULCLUSTERS, key, {"spec": {"template": template}}, Object)
    await exactly(client, namespace, 2)
    assert names(await pods(client, namespace)) == before, "an update changed a name"
    data = names(await claims(client, namespace))
    await client.delete(PODS, ObjectKey(namespace, before[0]))

    async def replaced() -> None:
        assert before[0] not in names(await pods(client, namespace))

    await eventually(replaced, within=PATIENCE)
    await exactly(client, namespace, 2)
    assert names(await claims(client, namespace)) == data, "a replacement did not get the claims"
    assert len(data) == 4, data
    await client.patch(STATEFULCLUSTERS, key, {"spec": {"replicas": 1}}, Object)
    await exactly(client, namespace, 1)
    assert (await get(client, key)).status.update_revision
    assert len(await revisions(client, namespace)) == 2
    await client.delete(STATEFULCLUSTERS, key)

    async def gone() -> None:
        assert await pods(client, namespace) == []
        assert await claims(client, namespace) == []
        assert await revisions(client, namespace) == []

    await eventually(gone, within=PATIENCE)


@contextlib.asynccontextmanager
async def a_stage(
    api: Api, kubeconfig: Path, scratch: Path
) -> AsyncIterator[tuple[str, FaultProxy, Program]]:
    """A namespace with a simulated node, and an operator behind a proxy that is started again when it dies."""
    async with (
        fresh_namespace(api) as namespace,
        FaultProxy(kubeconfig) as proxy,
        SimulatedNode(api, namespace=namespace).running(),
    ):
        operator = operator_of("statefulcluster", proxy.write_kubeconfig(scratch), CONTEXT, namespace)
        await operator.start()
        try:
            async with meanwhile(keep_running(operator)):
                yield namespace, proxy, operator
        finally:
            operator.kill()
            await operator.ended()


def created(proxy: FaultProxy, resource: str) -> int:
    """How many objects of a type the API server has made for the operator."""
    return sum(each.status == 201 for each in proxy.trace.writes(matching("create", resource)))


@pytest.fixture(scope="module")
async def writes(clusters, cluster, tmp_path_factory) -> int:
    """How many writes the story takes when nothing goes wrong."""
    folder = tmp_path_factory.mktemp("reference")
    async with (
        Api.connect(cluster.kubeconfig) as api,
        a_stage(api, cluster.kubeconfig, folder) as (namespace, proxy, _),
    ):
        await tell(clusters, namespace)
        # Two replicas, each with two claims; two revisions of the template.
        assert created(proxy, "persistentvolumeclaims") == 4, f"\n{proxy.trace}"
        assert created(proxy, "controllerrevisions") == 2, f"\n{proxy.trace}"
        return len(proxy.trace.writes())


async def tell_with(
    fault: str, at_write: int | None, client: Client, api: Api, kubeconfig: Path, scratch: Path
) -> None:
    async with (
        a_stage(api, kubeconfig, scratch) as (namespace, proxy, operator),
        hit_by(fault, proxy, operator, at_write=at_write),
    ):
        await tell(client, namespace)
        assert created(proxy, "persistentvolumeclaims") == 4, "a claim was made twice"


@pytest.mark.timeout(1800)
async def test_statefulcluster_reaches_same_final_state_when_first_write_of_each_type_fails(
    clusters: Client, cluster, api, tmp_path
):
    async def told(fault: str) -> None:
        await tell_with(fault, None, clusters, api, cluster.kubeconfig, tmp_path)

    await side_by_side(ESSENTIAL, told)


# To be refused is to have written nothing, which the kill before each write shows already.
EVERY = {KILLED_BEFORE: 1, KILLED_AFTER: 1, ANSWER_LOST: 1, CONFLICT: 3, TROUBLE: 3}


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("fault", EVERY, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.timeout(1800)
async def test_statefulcluster_reaches_same_final_state_when_any_write_fails(
    fault, writes, clusters, cluster, api, tmp_path
):
    async def told(number: int) -> None:
        await tell_with(fault, number, clusters, api, cluster.kubeconfig, tmp_path)

    await side_by_side(range(1, writes + 1, EVERY[fault]), told)
