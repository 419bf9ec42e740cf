"""Teardown of a run: its end is reported correctly, and no object of it is left when the next run starts."""

import contextlib
from collections.abc import AsyncIterator

from kit.cluster.objects import exists, wait_until_gone
from kit.faults.proxy import FaultProxy, matching
from kit.kinds.checkups import (
    SimulatedPod,
    create,
    run_name,
    run_to_success,
    wait_for_reason,
    wait_for_verdict,
)
from quintet.apis.checkup import CHECKUPS
from quintet.apis.meta import Object, ObjectKey
from quintet.controllers.checkup.decide import desired
from quintet.kube.client import PODS, Client
from quintet.kube.errors import NotFound


@contextlib.asynccontextmanager
async def hold_pod(client: Client, pod: ObjectKey) -> AsyncIterator[None]:
    """Keep a pod terminating while inside."""
    held = (await client.get(PODS, pod, Object)).metadata.finalizers
    body = {"metadata": {"finalizers": [*held, "test.quintet.dev/held"]}}
    await client.patch(PODS, pod, body, Object)
    try:
        yield
    finally:
        with contextlib.suppress(NotFound):
            await client.patch(PODS, pod, {"metadata": {"finalizers": None}}, Object)


async def test_deleted_job_is_reported_although_pod_ends_first(
    checkup_operator, checkups: Client, proxy: FaultProxy, namespace
):
    key = await create(checkups, namespace, "robbed")
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.start()
    job = ObjectKey(namespace, (await wait_for_reason(checkups, key, "Running")).status.job)
    proxy.hold("jobs")
    async with hold_pod(checkups, pod.key):
        await checkups.delete(desired.JOBS, job, propagation="Background")
        status = (await wait_for_verdict(checkups, key, "Cancelled")).status
    assert status.reason == "JobDeleted"


async def test_pod_of_previous_run_is_gone_before_next_run_starts(
    checkup_operator, checkups: Client, proxy: FaultProxy, namespace
):
    key = await create(checkups, namespace, "old")
    pod = await SimulatedPod.wait_for(checkups, key)
    await run_to_success(checkups, key)
    await wait_for_verdict(checkups, key, "Passed")
    long_ago = {"status": {"completionTime": "2020-01-01T00:00:00Z"}}
    await checkups.patch(CHECKUPS, key, long_ago, Object, subresource="status")
    first = ObjectKey(namespace, await run_name(checkups, key))
    async with hold_pod(checkups, pod.key):
        await checkups.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/rerun": "1"}}}, Object)
        await wait_until_gone(checkups, desired.JOBS, first)
        looks = matching("get", "jobs", name=first.name)
        mark = proxy.trace.mark()
        await proxy.wait_for(looks, since=mark)
        await proxy.wait_for(looks, since=proxy.trace.mark())
        assert await exists(checkups, desired.CONFIG_MAPS, first), "the pod could still write its results"
    await run_to_success(checkups, key, 2)
    await wait_for_verdict(checkups, key, "Passed", run=2)
