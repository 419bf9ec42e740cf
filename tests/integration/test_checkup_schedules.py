"""Scheduled Checkups on a real API server. The controller's clock runs faster while a test waits for the next run.

The arithmetic, with two years of changing clocks and downtimes, is in unit/checkup/test_scheduling.py.
"""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from kit.clock import FastClock
from kit.cluster.api import Api, RefusedError
from kit.cluster.objects import exists
from kit.eventually import eventually
from kit.kinds.checkups import (
    CHILD_TYPES,
    SimulatedPod,
    a_checkup,
    children,
    create,
    get,
    run_name,
    run_to_success,
    wait_for_reason,
    wait_for_verdict,
)
from quintet.apis.checkup import CHECKUPS, Checkup
from quintet.apis.meta import Object, ObjectKey, find_condition
from quintet.kube.client import Client
from quintet.kube.errors import Invalid
from quintet.runtime.manager import Manager

EVERY_MINUTE = "* * * * *"
SLOW = 86_400
"""The timeout of checkups in these tests: their pods live by another clock than the controller."""
MINUTE = timedelta(minutes=1)


def clock_of(manager: Manager) -> FastClock:
    assert isinstance(manager.clock, FastClock)
    return manager.clock


async def wait_for_run(client: Client, manager: Manager, key: ObjectKey, run: int) -> Checkup:
    """Let the controller's time pass until a run has started."""

    async def assert_started() -> Checkup:
        checkup = await get(client, key)
        assert checkup.status.run >= run, checkup.status
        return checkup

    with clock_of(manager).running_fast(60):
        return await eventually(assert_started)


async def test_scheduled_checkup_runs_at_each_time_and_keeps_results(
    checkup_operator: Manager, checkups: Client, namespace
):
    key = await create(checkups, namespace, "often", schedule=EVERY_MINUTE, timeout=SLOW)
    waits = await wait_for_reason(checkups, key, "WaitsForSchedule")
    assert (waits.status.phase, waits.status.run, waits.status.start_time) == ("Scheduled", 0, None)
    assert not await exists(checkups, CHILD_TYPES[-1], ObjectKey(namespace, await run_name(checkups, key)))
    due = [waits.status.next_run_time]
    for run in (1, 2, 3):
        started = await wait_for_run(checkups, checkup_operator, key, run)
        assert (started.status.run, started.status.scheduled_time) == (run, due[-1])
        await run_to_success(checkups, key, run)
        ended = await wait_for_verdict(checkups, key, "Passed", run=run)
        due.append(ended.status.next_run_time)
    times = [datetime.fromisoformat(str(moment)) for moment in due]
    assert all(later - earlier >= MINUTE for earlier, later in pairwise(times))
    status = (await get(checkups, key)).status
    assert [(run.run, run.verdict, run.results, run.scheduled_time) for run in status.history] == [
        (2, "Passed", {"echo": "Hi!"}, due[1]),
        (1, "Passed", {"echo": "Hi!"}, due[0]),
    ]
    scheduled = find_condition(status.conditions, "Scheduled")
    assert scheduled is not None
    assert scheduled.status == "True"


async def test_due_run_waits_for_running_one_and_the_time_between_is_missed(
    checkup_operator: Manager, checkups: Client, namespace
):
    key = await create(checkups, namespace, "long", schedule=EVERY_MINUTE, timeout=SLOW)
    started = await wait_for_run(checkups, checkup_operator, key, 1)
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.start()
    clock, expected = clock_of(checkup_operator), datetime.fromisoformat(str(started.status.next_run_time))

    async def assert_late() -> None:
        assert clock.now() > expected + 3 * MINUTE

    with clock.running_fast(60):
        await eventually(assert_late)
    assert (await get(checkups, key)).status.run == 1
    await pod.terminate(1)
    status = (await wait_for_run(checkups, checkup_operator, key, 2)).status
    assert (status.run, status.history[0].verdict) == (2, "Failed")
    assert status.missed_runs >= 3


async def test_due_run_replaces_running_one(checkup_operator: Manager, checkups: Client, namespace):
    key = await create(
        checkups, namespace, "replaced", schedule=EVERY_MINUTE, concurrencyPolicy="Replace", timeout=SLOW
    )
    await wait_for_run(checkups, checkup_operator, key, 1)
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.start()
    await wait_for_reason(checkups, key, "Running")
    with clock_of(checkup_operator).running_fast(60):
        await wait_for_reason(checkups, key, "ReplacedByNextRun")
    status = (await wait_for_run(checkups, checkup_operator, key, 2)).status
    assert (status.history[0].verdict, status.history[0].reason) == ("Cancelled", "ReplacedByNextRun")


async def test_suspended_schedule_starts_runs_only_on_request(
    checkup_operator: Manager, checkups: Client, namespace
):
    key = await create(
        checkups, namespace, "quiet", schedule=EVERY_MINUTE, suspend=True, successfulRunsHistoryLimit=0
    )
    waits = await wait_for_reason(checkups, key, "Suspended")
    assert waits.status.next_run_time is None
    await checkups.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/rerun": "1"}}}, Object)
    await run_to_success(checkups, key)
    ended = await wait_for_verdict(checkups, key, "Passed")
    assert (ended.status.scheduled_time, ended.status.next_run_time) == (None, None)
    await checkups.patch(CHECKUPS, key, {"spec": {"suspend": False}}, Object)
    status = (await wait_for_run(checkups, checkup_operator, key, 2)).status
    assert (status.missed_runs, status.history) == (0, ())


async def test_invalid_schedule_that_bypassed_webhook_is_reported(
    checkup_operator: Manager, checkups: Client, namespace
):
    key = await create(checkups, namespace, "wrong", schedule="61 * * * *")
    status = (await wait_for_verdict(checkups, key, "Invalid", run=0)).status
    assert status.message.startswith('spec.schedule: Invalid value: "61 * * * *": minute: 61 is not between')
    await checkups.patch(CHECKUPS, key, {"spec": {"schedule": EVERY_MINUTE}}, Object)
    await wait_for_reason(checkups, key, "WaitsForSchedule")


async def test_only_schedule_may_change_after_start(checkup_operator: Manager, checkups: Client, namespace):
    key = await create(
        checkups, namespace, "fixed", params={"a": "b"}, template={"spec": {"nodeSelector": {"a": "b"}}}
    )
    await SimulatedPod.wait_for(checkups, key)
    await children(checkups, key)
    await checkups.patch(CHECKUPS, key, {"spec": {"schedule": "@daily", "timeZone": "Europe/Berlin"}}, Object)
    await checkups.patch(CHECKUPS, key, {"spec": {"failedRunsHistoryLimit": 3}}, Object)
    changes: tuple[dict[str, Any], ...] = (
        {"image": "other"},
        {"schedule": "@hourly", "image": "other"},
        {"schedule": "@hourly", "timeoutSeconds": 61},
        {"schedule": "@hourly", "template": {"metadata": {"labels": {"a": "b"}}}},
        {"params": {"a": "c"}},
    )
    for change in changes:
        with pytest.raises(Invalid, match="spec must not be changed"):
            await checkups.patch(CHECKUPS, key, {"spec": change}, Object)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"suspend": True}, "spec.suspend must not be set without spec.schedule"),
        ({"timeZone": "UTC"}, "spec.timeZone must not be set without spec.schedule"),
        ({"schedule": "@daily", "concurrencyPolicy": "Allow"}, "spec.concurrencyPolicy: Unsupported value"),
        ({"schedule": "@daily", "startingDeadlineSeconds": 0}, "spec.startingDeadlineSeconds"),
        ({"successfulRunsHistoryLimit": 101}, "spec.successfulRunsHistoryLimit"),
    ],
)
async def test_crd_refuses_invalid_schedule_fields(spec, message, checkups, api: Api, shared_namespace):
    with pytest.raises(RefusedError) as refused:
        await api.create(CHECKUPS.path(shared_namespace), a_checkup("bad", **spec), dryRun="All")
    assert message in str(refused.value)
