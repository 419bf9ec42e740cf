"""Retries with the verdict Flaky, and Checkups that are deleted some time after their end."""

from kit.clock import FastClock
from kit.cluster.objects import exists
from kit.eventually import eventually
from kit.kinds.checkups import (
    CHILD_TYPES,
    SimulatedPod,
    create,
    get,
    run_name,
    run_to_success,
    wait_for_verdict,
    write_results,
)
from quintet.apis.checkup import CHECKUPS
from quintet.apis.meta import Object, ObjectKey, find_condition
from quintet.kube.client import Client
from quintet.runtime.manager import Manager


async def fail(client: Client, key: ObjectKey, run: int) -> None:
    pod = await SimulatedPod.wait_for(client, key, run)
    await pod.start()
    found = {"status.succeeded": "false", "status.failureReason": f"check: broken in run {run}"}
    await write_results(client, key, found, run)
    await pod.terminate(1)


async def test_run_that_passes_after_a_retry_is_flaky_and_keeps_the_evidence(
    checkup_operator, checkups: Client, namespace
):
    key = await create(checkups, namespace, "flaky", retries=2)
    await fail(checkups, key, 1)
    await SimulatedPod.wait_for(checkups, key, 2)

    async def assert_second_attempt() -> None:
        # The controller writes the status after it has created the Job, so the pod may be there before.
        between = (await get(checkups, key)).status
        assert (between.run, between.attempt, between.verdict) == (2, 2, None)
        verdicts = {each.status for each in between.conditions if each.type in ("Succeeded", "Failed")}
        assert verdicts == {"Unknown"}

    await eventually(assert_second_attempt)
    await run_to_success(checkups, key, 2)
    status = (await wait_for_verdict(checkups, key, "Flaky", run=2)).status
    assert status.reason == "PassedAfterRetry"
    assert "check: broken in run 1" in status.message
    assert [(run.run, run.verdict, run.attempt) for run in status.history] == [(1, "Failed", 0)]
    assert status.evidence is not None
    assert status.evidence.containers[0].state.startswith("ended with exit code 1")
    succeeded = find_condition(status.conditions, "Succeeded")
    assert succeeded is not None
    assert succeeded.status == "True"
    for resource in CHILD_TYPES:
        gone = ObjectKey(namespace, await run_name(checkups, key, 1))
        assert not await exists(checkups, resource, gone), resource.kind


async def test_last_attempt_decides(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "broken", retries=1, failedRunsHistoryLimit=0)
    await fail(checkups, key, 1)
    await fail(checkups, key, 2)
    status = (await wait_for_verdict(checkups, key, "Failed", run=2)).status
    assert (status.message, status.attempt) == ("check: broken in run 2", 2)
    # A rerun has all its attempts again.
    await checkups.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/rerun": "1"}}}, Object)
    await fail(checkups, key, 3)
    await run_to_success(checkups, key, 4)
    await wait_for_verdict(checkups, key, "Flaky", run=4)


async def test_cancelled_attempt_is_not_retried(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "cancelled", retries=10)
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.start()
    await checkups.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/cancel": "true"}}}, Object)
    status = (await wait_for_verdict(checkups, key, "Cancelled")).status
    assert (status.run, status.attempt) == (1, 0)


async def test_finished_checkup_is_deleted_after_its_time_to_live(
    checkup_operator: Manager, checkups: Client, namespace
):
    key = await create(checkups, namespace, "short", ttlSecondsAfterFinished=600)
    name = await run_name(checkups, key)
    await run_to_success(checkups, key)
    await wait_for_verdict(checkups, key, "Passed")
    assert isinstance(checkup_operator.clock, FastClock)

    async def assert_deleted() -> None:
        assert not await exists(checkups, CHECKUPS, key)
        for resource in CHILD_TYPES:
            assert not await exists(checkups, resource, ObjectKey(namespace, name)), resource.kind

    with checkup_operator.clock.running_fast(120):
        await eventually(assert_deleted)
