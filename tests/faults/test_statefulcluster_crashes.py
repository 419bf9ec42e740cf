"""The operator dies, or an answer is lost, at every single write of a StatefulCluster's life.

A reference run numbers the writes of a story: made, scaled up, updated, a pod lost, scaled down,
deleted. Then each write in turn is hit in each way. Whatever is hit, the end of every chapter is
the same: exactly the wanted pods, each on a claim group of its own, none leaked, none doubled.
"""

from pathlib import Path

import pytest

from kit.api import Api
from kit.cluster import fresh_namespace
from kit.crashes import (
    ANSWER_LOST,
    CONFLICT,
    FAULTS,
    KILLED_AFTER,
    KILLED_BEFORE,
    TROUBLE,
    at_writes,
    keep_running,
)
from kit.eventually import eventually
from kit.kubelet import PretendedNode
from kit.meanwhile import meanwhile
from kit.operators import operator_of
from kit.process import Program
from kit.proxy import FaultProxy
from kit.statefulclusters import CONTEXT, a_cluster, claims, claims_of, get, names, pods, revisions
from quintet.apis.meta import Object, ObjectKey
from quintet.apis.statefulcluster import STATEFULCLUSTERS
from quintet.controllers.statefulcluster.desired import PODS
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

    await eventually(probe, within=120.0)


async def tell(client: Client, namespace: str, claims_at_most: list[int]) -> None:
    """The story; notes the number of claims that there were before anything was taken away."""
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

    await eventually(replaced, within=120.0)
    await exactly(client, namespace, 2)
    assert names(await claims(client, namespace)) == data, "a replacement did not get the claims"
    claims_at_most.append(len(data))
    await client.patch(STATEFULCLUSTERS, key, {"spec": {"replicas": 1}}, Object)
    await exactly(client, namespace, 1)
    assert (await get(client, key)).status.update_revision
    assert len(await revisions(client, namespace)) == 2
    await client.delete(STATEFULCLUSTERS, key)

    async def gone() -> None:
        assert await pods(client, namespace) == []
        assert await claims(client, namespace) == []
        assert await revisions(client, namespace) == []

    await eventually(gone, within=120.0)


async def run(client: Client, api: Api, kubeconfig: Path, folder: Path, prepare) -> FaultProxy:
    """The story with an operator that is started again whenever it dies; `prepare` sets the fault."""
    async with (
        fresh_namespace(api) as namespace,
        FaultProxy(kubeconfig) as proxy,
        PretendedNode(api, namespace=namespace).running(),
    ):
        operator = operator_of("statefulcluster", proxy.write_kubeconfig(folder), CONTEXT, namespace)
        await operator.start()
        try:
            async with meanwhile(keep_running(operator)):
                check = prepare(proxy, operator)
                counted: list[int] = []
                await tell(client, namespace, counted)
                assert counted == [4]
                check()
        finally:
            operator.kill()
            await operator.ended()
    return proxy


@pytest.fixture(scope="module")
async def writes(clusters, cluster, tmp_path_factory) -> int:
    """How many writes the story takes when nothing goes wrong."""
    folder = tmp_path_factory.mktemp("reference")
    async with Api.connect(cluster.kubeconfig) as api:
        proxy = await run(clusters, api, cluster.kubeconfig, folder, lambda proxy, operator: lambda: None)
    made = [each.request.resource for each in proxy.trace.writes() if each.request.verb == "create"]
    # Two replicas, two more pods by the update, one more by the replacement.
    counts = {resource: made.count(resource) for resource in sorted(set(made))}
    assert counts["persistentvolumeclaims"] == 4, f"{counts}\n{proxy.trace}"
    assert counts["controllerrevisions"] == 2, f"{counts}\n{proxy.trace}"
    return len(proxy.trace.writes())


# To be refused is to have written nothing, which the kill before each write shows already.
EVERY = {KILLED_BEFORE: 1, KILLED_AFTER: 1, ANSWER_LOST: 1, CONFLICT: 3, TROUBLE: 3}


@pytest.mark.slow
@pytest.mark.parametrize("fault", EVERY, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.timeout(1800)
async def test_the_end_is_the_same_whatever_happens_to_a_write(
    fault, writes, clusters, cluster, api, tmp_path
):
    async def at(number: int) -> None:
        def prepare(proxy: FaultProxy, operator: Program):
            hit = proxy.inject(FAULTS[fault](operator), at_write=number)

            def check() -> None:
                assert hit.hits or len(proxy.trace.writes()) < number, (
                    f"write {number} was not hit\n{proxy.trace}"
                )
                made = [
                    each.request
                    for each in proxy.trace.writes()
                    if each.request.verb == "create" and each.status == 201
                ]
                new_claims = [each for each in made if each.resource == "persistentvolumeclaims"]
                assert len(new_claims) == 4, f"write {number} {fault}: a claim was made twice\n{proxy.trace}"

            return check

        folder = tmp_path / str(number)
        folder.mkdir()
        await run(clusters, api, cluster.kubeconfig, folder, prepare)

    await at_writes(range(1, writes + 1, EVERY[fault]), at)
