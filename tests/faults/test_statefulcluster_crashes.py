"""The operator is killed or a response is lost at any write in the life of a StatefulCluster.

The scenario creates, scales up, updates, loses a pod, scales down and deletes. Whichever write is hit, every step ends
with exactly the desired pods, each with its own claim group. `kit.faults.scenarios` defines which writes are hit.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kit.background import run_in_background
from kit.cluster.api import Api
from kit.cluster.control_plane import fresh_namespace
from kit.cluster.simulated_node import SimulatedNode
from kit.eventually import eventually
from kit.faults.operators import operator_of
from kit.faults.proxy import FaultProxy, matching
from kit.faults.scenarios import (
    CONFLICT,
    ESSENTIAL,
    KILLED_AFTER,
    KILLED_BEFORE,
    PATIENCE,
    RESPONSE_LOST,
    UNAVAILABLE,
    inject_at_write,
    keep_running,
    run_concurrently,
)
from kit.kinds.statefulclusters import (
    CONTEXT,
    a_cluster,
    claims_of,
    get,
    list_claims,
    list_pods,
    list_revisions,
    names,
)
from kit.process import Program
from quintet.apis.meta import Object, ObjectKey
from quintet.apis.statefulcluster import STATEFULCLUSTERS
from quintet.controllers.statefulcluster.decide.desired import PODS
from quintet.kube.client import Client

POLICY = {"whenScaled": "Delete", "whenDeleted": "Delete"}


async def assert_exact_pods_and_claims(client: Client, namespace: str, replicas: int) -> None:
    """Assert the desired number of pods, each with its own claims, and no other claim."""
    key = ObjectKey(namespace, "web")

    async def probe() -> None:
        cluster = await get(client, key)
        status = cluster.status
        assert status.observed_generation == cluster.metadata.generation, status
        assert status.plan[0].reason == "AsWanted", status
        found = await list_pods(client, namespace)
        mounted = sorted(claim for pod in found for claim in claims_of(pod))
        assert len(found) == replicas, status
        assert sorted(status.replica_names) == names(found), status
        assert names(await list_claims(client, namespace)) == mounted, status
        assert len(set(mounted)) == 2 * replicas, mounted
        assert (status.draws, status.retiring) == ((), ()), status

    await eventually(probe, within=PATIENCE)


async def run_scenario(client: Client, namespace: str) -> None:
    """Create, scale up, update, lose a pod, scale down and delete a StatefulCluster."""
    key = ObjectKey(namespace, "web")
    spec = {"replicas": 1, "claims": ("data", "log"), "persistentVolumeClaimRetentionPolicy": POLICY}
    await client.create(STATEFULCLUSTERS, a_cluster(**spec), Object, namespace=namespace)
    await assert_exact_pods_and_claims(client, namespace, 1)
    await client.patch(STATEFULCLUSTERS, key, {"spec": {"replicas": 2}}, Object)
    await assert_exact_pods_and_claims(client, namespace, 2)
    before = names(await list_pods(client, namespace))
    template = a_cluster(image="web:2")["spec"]["template"]
    await client.patch(STATEFULCLUSTERS, key, {"spec": {"template": template}}, Object)
    await assert_exact_pods_and_claims(client, namespace, 2)
    assert names(await list_pods(client, namespace)) == before, "an update changed a name"
    data = names(await list_claims(client, namespace))
    await client.delete(PODS, ObjectKey(namespace, before[0]))

    async def assert_replaced() -> None:
        assert before[0] not in names(await list_pods(client, namespace))

    await eventually(assert_replaced, within=PATIENCE)
    await assert_exact_pods_and_claims(client, namespace, 2)
    assert names(await list_claims(client, namespace)) == data, "a replacement did not get the claims"
    assert len(data) == 4, data
    await client.patch(STATEFULCLUSTERS, key, {"spec": {"replicas": 1}}, Object)
    await assert_exact_pods_and_claims(client, namespace, 1)
    assert (await get(client, key)).status.update_revision
    assert len(await list_revisions(client, namespace)) == 2
    await client.delete(STATEFULCLUSTERS, key)

    async def assert_gone() -> None:
        assert await list_pods(client, namespace) == []
        assert await list_claims(client, namespace) == []
        assert await list_revisions(client, namespace) == []

    await eventually(assert_gone, within=PATIENCE)


@contextlib.asynccontextmanager
async def an_environment(
    api: Api, kubeconfig: Path, scratch: Path
) -> AsyncIterator[tuple[str, FaultProxy, Program]]:
    """Create a namespace with a simulated node and an operator behind a proxy, restarted when it dies."""
    async with (
        fresh_namespace(api) as namespace,
        FaultProxy(kubeconfig) as proxy,
        SimulatedNode(api, namespace=namespace).running(),
    ):
        operator = operator_of("statefulcluster", proxy.write_kubeconfig(scratch), CONTEXT, namespace)
        await operator.start()
        try:
            async with run_in_background(keep_running(operator)):
                yield namespace, proxy, operator
        finally:
            operator.kill()
            await operator.ended()


def count_created(proxy: FaultProxy, resource: str) -> int:
    """Return how many objects of a type the operator created."""
    return sum(each.status == 201 for each in proxy.trace.writes(matching("create", resource)))


@pytest.fixture(scope="module")
async def writes(clusters, cluster, tmp_path_factory) -> int:
    """Return the number of writes of the scenario without faults."""
    folder = tmp_path_factory.mktemp("reference")
    async with (
        Api.connect(cluster.kubeconfig) as api,
        an_environment(api, cluster.kubeconfig, folder) as (namespace, proxy, _),
    ):
        await run_scenario(clusters, namespace)
        # Two replicas, each with two claims; two revisions of the template.
        assert count_created(proxy, "persistentvolumeclaims") == 4, f"\n{proxy.trace}"
        assert count_created(proxy, "controllerrevisions") == 2, f"\n{proxy.trace}"
        return len(proxy.trace.writes())


async def run_with_fault(
    fault: str, at_write: int | None, client: Client, api: Api, kubeconfig: Path, scratch: Path
) -> None:
    async with (
        an_environment(api, kubeconfig, scratch) as (namespace, proxy, operator),
        inject_at_write(fault, proxy, operator, at_write=at_write),
    ):
        await run_scenario(client, namespace)
        assert count_created(proxy, "persistentvolumeclaims") == 4, "a claim was created twice"


@pytest.mark.timeout(1800)
async def test_statefulcluster_reaches_same_final_state_when_first_write_of_each_type_fails(
    clusters: Client, cluster, api, tmp_path
):
    async def run_case(fault: str) -> None:
        await run_with_fault(fault, None, clusters, api, cluster.kubeconfig, tmp_path)

    await run_concurrently(ESSENTIAL, run_case)


# A rejected write changes nothing, as with the kill before each write.
EVERY = {KILLED_BEFORE: 1, KILLED_AFTER: 1, RESPONSE_LOST: 1, CONFLICT: 3, UNAVAILABLE: 3}


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("fault", EVERY, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.timeout(1800)
async def test_statefulcluster_reaches_same_final_state_when_any_write_fails(
    fault, writes, clusters, cluster, api, tmp_path
):
    async def run_case(number: int) -> None:
        await run_with_fault(fault, number, clusters, api, cluster.kubeconfig, tmp_path)

    await run_concurrently(range(1, writes + 1, EVERY[fault]), run_case)
