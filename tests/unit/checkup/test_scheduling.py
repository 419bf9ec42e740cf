"""Scheduled runs with a simulated controller and clock over two years: downtimes, long runs, changes of the clocks."""

import random
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from quintet.apis.checkup import Checkup, CheckupStatus, ConcurrencyPolicy, Run, Verdict
from quintet.apis.checkup.schedule import parse
from quintet.apis.meta import find_condition
from quintet.clock import timestamp
from quintet.controllers.checkup.decide import history, scheduling
from quintet.controllers.checkup.decide.timing import parse_time
from unit.checkup.observations import a_checkup

START = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
END = datetime(2028, 1, 1, tzinfo=UTC)


def plan(status: CheckupStatus, now: datetime, *, cancelled: bool = False, **spec) -> scheduling.RunPlan:
    return scheduling.plan(a_checkup(status, **spec), now, cancelled=cancelled)


class Simulation:
    """A controller that reconciles when its timer fires, when a run ends, and when it starts again."""

    def __init__(self, seed: int, *, downtimes: bool, longest_run: timedelta, **spec) -> None:
        self.spec = spec
        self.schedule = parse(spec["schedule"], spec.get("time_zone", ""))
        self.replaces = spec.get("concurrency_policy") is ConcurrencyPolicy.REPLACE
        self.chance = random.Random(seed)
        self.downtimes = downtimes
        self.longest_run = longest_run
        self.status = CheckupStatus()
        self.started: list[tuple[datetime, datetime]] = []
        """When runs started, and the time of the schedule that they were due at."""
        self.reconciles = 0
        self.run_ends: datetime | None = None

    def run(self) -> None:
        now = START
        while now < END:
            now = self.reconcile(now)
            if self.downtimes and self.chance.random() < 0.02:
                now += timedelta(hours=self.chance.uniform(0, 200))

    def reconcile(self, now: datetime) -> datetime:
        """Reconcile once and return when to reconcile next."""
        self.reconciles += 1
        if self.run_ends is not None and now >= self.run_ends:
            self.run_ends = None
        if self.run_ends is not None and not self.replaces:
            return self.run_ends
        found = plan(self.status, now, **self.spec)
        if found.due is not None:
            # A crash before the status is written: the next process plans the same run again.
            if self.downtimes and self.chance.random() < 0.2:
                again = plan(self.status, now, **self.spec)
                assert again == found
            self.started.append((now, found.due))
            self.run_ends = now + self.longest_run * self.chance.uniform(0.1, 1)
        self.status = found.status
        assert found.delay is not None
        assert found.delay > 0
        following = now + timedelta(seconds=found.delay)
        return min(following, self.run_ends) if self.run_ends is not None else following

    @property
    def all_times(self) -> list[datetime]:
        found = []
        for moment in self.schedule.times_after(START):
            if moment >= (parse_time(self.status.next_run_time) or END):
                return found
            found.append(moment)
        raise AssertionError("unreachable")


SCHEDULES = [
    ("0 */3 * * *", "Europe/Berlin"),
    ("30 2 * * *", "America/New_York"),
    ("0,30 */6 * * 1-5", "Australia/Lord_Howe"),
    ("0 0 * * 0", "Africa/Cairo"),
]


@pytest.mark.parametrize(("text", "zone"), SCHEDULES)
def test_every_time_of_two_years_starts_one_run_on_time(text: str, zone: str):
    world = Simulation(1, downtimes=False, longest_run=timedelta(minutes=5), schedule=text, time_zone=zone)
    world.run()
    assert world.started == [(moment, moment) for moment in world.all_times]
    assert world.status.missed_runs == 0
    assert world.reconciles <= 2 * len(world.started) + 2, "it only wakes up to start and to end runs"


@pytest.mark.parametrize("policy", ConcurrencyPolicy)
@pytest.mark.parametrize("deadline", [None, 600])
@pytest.mark.parametrize(("text", "zone"), SCHEDULES)
def test_each_time_is_run_once_or_counted_as_missed(text, zone, deadline, policy):
    spec = {
        "schedule": text,
        "time_zone": zone,
        "concurrency_policy": policy,
        "starting_deadline_seconds": deadline,
    }
    world = Simulation(7, downtimes=True, longest_run=timedelta(hours=3), **spec)
    world.run()
    due = [moment for _, moment in world.started]
    assert due == sorted(set(due)), "no time starts two runs, and none goes back"
    assert set(due) <= set(world.all_times)
    assert len(due) + world.status.missed_runs == len(world.all_times)
    assert len(due) > 10
    for moment, tick in world.started:
        assert moment >= tick
        assert world.schedule.last_until(moment) == tick, "only the last missed run is made up for"
        assert deadline is None or moment - tick <= timedelta(seconds=deadline)


def test_new_schedule_waits_for_its_first_time():
    found = plan(CheckupStatus(), START, schedule="0 * * * *")
    assert (found.due, found.delay, found.status.next_run_time) == (None, 3570, "2026-01-01T01:00:00Z")
    assert plan(found.status, START + timedelta(minutes=1), schedule="0 * * * *").status == found.status


def test_changed_schedule_starts_no_run_of_the_earlier_one():
    waits = plan(CheckupStatus(), START, schedule="0 * * * *").status
    later = START + timedelta(hours=5)
    found = plan(waits, later, schedule="30 * * * *")
    assert (found.due, found.status.next_run_time, found.status.missed_runs) == (
        None,
        "2026-01-01T05:30:00Z",
        0,
    )
    sooner = plan(waits, START, schedule="*/5 * * * *")
    assert sooner.status.next_run_time == "2026-01-01T00:05:00Z"


@pytest.mark.parametrize(
    ("spec", "cancelled", "reason"),
    [({"suspend": True}, False, "Suspended"), ({}, True, "CancelRequested"), ({"time_zone": "Mars"}, False, "InvalidSchedule")],
)  # fmt: skip
def test_paused_schedule_starts_no_run_then_and_makes_up_for_none(spec, cancelled, reason):
    waits = plan(CheckupStatus(), START, schedule="0 * * * *").status
    paused = plan(waits, START + timedelta(minutes=5), cancelled=cancelled, schedule="0 * * * *", **spec)
    assert (paused.due, paused.delay, paused.status.next_run_time) == (None, None, None)
    condition = find_condition(paused.status.conditions, "Scheduled")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", reason)
    resumed = plan(paused.status, START + timedelta(hours=5), schedule="0 * * * *")
    assert (resumed.due, resumed.status.missed_runs) == (None, 0)
    assert resumed.status.next_run_time == "2026-01-01T06:00:00Z"


def test_removed_schedule_is_reported_and_starts_nothing():
    waits = plan(CheckupStatus(), START, schedule="0 * * * *").status
    found = plan(waits, START + timedelta(days=1))
    assert (found.due, found.delay, found.status.next_run_time) == (None, None, None)
    condition = find_condition(found.status.conditions, "Scheduled")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "NoSchedule")


def test_checkup_without_schedule_keeps_its_status():
    status = CheckupStatus(run=3, verdict=Verdict.PASSED)
    assert plan(status, START) == scheduling.RunPlan(status)


def test_missed_runs_of_a_long_downtime_are_counted_up_to_a_limit():
    waits = plan(CheckupStatus(), START, schedule="* * * * *").status
    found = plan(waits, END, schedule="* * * * *")
    assert found.status.missed_runs == scheduling.MOST_COUNTED - 1
    assert found.due == END


def a_finished(run: int, verdict: Verdict, previous: tuple[Run, ...] = (), **fields) -> CheckupStatus:
    return CheckupStatus(run=run, verdict=verdict, history=previous, start_time=timestamp(START), **fields)


def test_history_keeps_the_last_runs_of_each_outcome():
    checkup: Checkup = a_checkup(successful_runs_history_limit=2, failed_runs_history_limit=1)
    runs: tuple[Run, ...] = ()
    for number, verdict in enumerate("PFPTPPFP", start=1):
        outcome = {"P": Verdict.PASSED, "F": Verdict.FAILED, "T": Verdict.TIMED_OUT}[verdict]
        runs = history.add_run(a_finished(number, outcome, runs), checkup.spec)
    assert [(run.run, run.verdict) for run in runs] == [(8, "Passed"), (7, "Failed"), (6, "Passed")]
    none = msgspec.structs.replace(checkup.spec, successful_runs_history_limit=0, failed_runs_history_limit=0)
    assert history.add_run(a_finished(9, Verdict.PASSED, runs), none) == ()


def test_history_keeps_short_results_and_counts_the_others():
    results = {"latency": "12.5", "log": "x" * 129, **{f"n{number:03}": "y" * 100 for number in range(40)}}
    (run,) = history.add_run(a_finished(1, Verdict.PASSED, result_map=results), a_checkup().spec)
    assert run.results["latency"] == "12.5"
    assert "log" not in run.results
    assert sum(len(name) + len(value) for name, value in run.results.items()) <= 2048
    assert len(run.results) + run.results_omitted == len(results)
