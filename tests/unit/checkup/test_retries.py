"""Attempts of a run, and the verdict of the last one."""

import itertools

import pytest

from quintet.apis.checkup import Checkup, CheckupStatus, Phase, Verdict
from quintet.apis.checkup.results import Results
from quintet.controllers.checkup.decide import scheduling
from quintet.controllers.checkup.decide import status as statuses
from quintet.controllers.checkup.decide.verdict import Ending
from unit.checkup.observations import START, a_checkup

RETRIED = (Verdict.FAILED, Verdict.TIMED_OUT, Verdict.INFRA_ERROR)


def run_attempts(verdicts: tuple[Verdict, ...], retries: int, **spec: int) -> list[CheckupStatus]:
    """The statuses at the end of each attempt, until no other attempt follows."""
    ends: list[CheckupStatus] = []
    checkup: Checkup = a_checkup(retries=retries, **spec)
    for verdict in verdicts:
        started = statuses.started_status(checkup, scheduling.RunPlan(checkup.status), START)
        ending = Ending(verdict, "Why", "because")
        status = statuses.ended_status(checkup, started, ending, Results(), None, START)
        checkup = a_checkup(status, retries=retries, **spec)
        ends.append(status)
        if not statuses.is_retrying(checkup):
            break
    return ends


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_attempts_follow_failures_until_one_passes_or_none_is_left(retries: int):
    for verdicts in itertools.product(Verdict, repeat=3):
        ends = run_attempts(verdicts, retries)
        last = ends[-1]
        count = next(
            (number for number, verdict in enumerate(verdicts[: retries + 1], 1) if verdict not in RETRIED),
            retries + 1,
        )
        assert len(ends) == count
        assert [(end.phase, end.verdict) for end in ends[:-1]] == [(Phase.RETRYING, None)] * (count - 1)
        flaky = verdicts[count - 1] is Verdict.PASSED and count > 1
        assert last.verdict == (Verdict.FLAKY if flaky else verdicts[count - 1])
        assert [run.verdict for run in last.history] == list(reversed(verdicts[: count - 1]))
        assert last.run == count


def test_attempt_before_the_last_one_is_known_although_the_history_keeps_none():
    first, second = run_attempts((Verdict.FAILED, Verdict.PASSED), 1, failed_runs_history_limit=0)
    assert (first.verdict, second.verdict) == (None, Verdict.FLAKY)


def test_time_to_live_counts_from_the_end_and_not_for_schedules():
    ended = CheckupStatus(
        run=1, verdict=Verdict.PASSED, start_time=START, completion_time="2026-01-01T10:05:00Z"
    )
    now = scheduling.parse_time("2026-01-01T10:06:00Z")
    assert now is not None
    assert scheduling.time_to_live(a_checkup(ended, ttl_seconds_after_finished=100), now) == 40
    assert scheduling.time_to_live(a_checkup(ended), now) is None
    assert scheduling.time_to_live(a_checkup(ttl_seconds_after_finished=0), now) is None
    invalid = CheckupStatus(verdict=Verdict.INVALID, completion_time=START)
    assert scheduling.time_to_live(a_checkup(invalid, ttl_seconds_after_finished=0), now) is None
    scheduled = a_checkup(ended, ttl_seconds_after_finished=100, schedule="@daily")
    assert scheduling.time_to_live(scheduled, now) is None
