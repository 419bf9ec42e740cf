"""How the objects of a run go: who ended it is told right, and nothing of it is there when the next one begins."""

import contextlib
from collections.abc import AsyncIterator

from kit.cluster.objects import exists, gone
from kit.faults.proxy import FaultProxy, matching
from kit.kinds.checkups import PlayedPod, create, passes, run_name, with_reason, with_verdict
from quintet.apis.checkup import CHECKUPS
from quintet.apis.meta import Object, ObjectKey
from quintet.controllers.checkup.decide import desired
from quintet.kube.client import PODS, Client
from quintet.kube.errors import NotFound


@contextlib.asynccontextmanager
async def lingering(client: Client, pod: ObjectKey) -> AsyncIterator[None]:
    """A pod whose end takes as long as we are inside."""
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
    pod = await PlayedPod.of(checkups, key)
    await pod.runs()
    job = ObjectKey(namespace, (await with_reason(checkups, key, "Running")).status.job)
    proxy.hold("jobs")
    async with lingering(checkups, pod.key):
        await checkups.delete(desired.JOBS, job, propagation="Background")
        status = (await with_verdict(checkups, key, "Cancelled")).status
    assert status.reason == "JobDeleted"


async def test_pod_of_previous_run_is_gone_before_next_run_starts(
    checkup_operator, checkups: Client, proxy: FaultProxy, namespace
):
    key = await create(checkups, namespace, "old")
    pod = await PlayedPod.of(checkups, key)
    await passes(checkups, key)
    await with_verdict(checkups, key, "Passed")
    long_ago = {"status": {"completionTime": "2020-01-01T00:00:00Z"}}
    await checkups.patch(CHECKUPS, key, long_ago, Object, subresource="status")
    first = ObjectKey(namespace, await run_name(checkups, key))
    async with lingering(checkups, pod.key):
        await checkups.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/rerun": "1"}}}, Object)
        await gone(checkups, desired.JOBS, first)
        looks = matching("get", "jobs", name=first.name)
        mark = proxy.trace.mark()
        await proxy.wait_for(looks, since=mark)
        await proxy.wait_for(looks, since=proxy.trace.mark())
        assert await exists(checkups, desired.CONFIG_MAPS, first), "the pod could still write its results"
    await passes(checkups, key, 2)
    await with_verdict(checkups, key, "Passed", run=2)
