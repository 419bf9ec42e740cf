"""Which run of a schedule is due. The rules are those of a CronJob.

`status.nextRunTime` is all that is remembered: the time of the schedule that the checkup waits for. Of the
times that have passed since, the last one is made up for if the starting deadline permits; the others were
missed.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice, takewhile

import msgspec

from quintet.apis.checkup import Checkup, CheckupStatus, ConcurrencyPolicy
from quintet.apis.checkup.schedule import Schedule, ScheduleError, parse
from quintet.apis.meta import Condition, find_condition
from quintet.controllers.checkup.decide.timing import format_time, parse_time

SCHEDULED = "Scheduled"
MOST_COUNTED = 1000
"""Maximum number of missed runs that are counted at once."""


class ScheduleReason(StrEnum):
    """Whether the schedule starts runs. See docs/checkup.md."""

    SCHEDULED = "WaitsForSchedule"
    SUSPENDED = "Suspended"
    CANCELLED = "CancelRequested"
    INVALID = "InvalidSchedule"
    NONE = "NoSchedule"


_MESSAGES = {
    ScheduleReason.SCHEDULED: "the next run starts at status.nextRunTime",
    ScheduleReason.SUSPENDED: "spec.suspend is true: the schedule starts no runs",
    ScheduleReason.CANCELLED: "the annotation kiagnose.io/cancel is set: the schedule starts no runs",
    ScheduleReason.NONE: "the checkup has no schedule any more",
}


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What the schedule of a checkup requires now."""

    status: CheckupStatus
    """The status with the next time of the schedule."""
    due: datetime | None = None
    """The time of the schedule whose run is to start now."""
    delay: float | None = None
    """Seconds until the next time of the schedule; None if it starts no runs."""


def plan(checkup: Checkup, now: datetime, *, cancelled: bool, retrying: bool = False) -> RunPlan:
    """Return which run is due.

    `cancelled`: the schedule must start no runs. `retrying`: another attempt comes before the next run.
    """
    spec, status = checkup.spec, checkup.status
    if retrying:
        return RunPlan(status)
    if not spec.schedule:
        known = find_condition(status.conditions, SCHEDULED) is not None
        return RunPlan(_without_next_run(status, ScheduleReason.NONE) if known else status)
    if spec.suspend or cancelled:
        why = ScheduleReason.SUSPENDED if spec.suspend else ScheduleReason.CANCELLED
        return RunPlan(_without_next_run(status, why))
    try:
        schedule = parse(spec.schedule, spec.time_zone)
    except ScheduleError as error:  # it bypassed the webhooks
        return RunPlan(_without_next_run(status, ScheduleReason.INVALID, f"spec.schedule: {error}"))
    return _next_run(schedule, checkup, now)


def _next_run(schedule: Schedule, checkup: Checkup, now: datetime) -> RunPlan:
    status, deadline = checkup.status, checkup.spec.starting_deadline_seconds
    following = schedule.next_after(now)
    delay = (following - now).total_seconds()
    waits = _with_condition(
        msgspec.structs.replace(status, next_run_time=format_time(following)), ScheduleReason.SCHEDULED
    )
    expected = parse_time(status.next_run_time)
    # A time that is not of this schedule was of one that somebody has changed since.
    if expected is None or expected > now or schedule.last_until(expected) != expected:
        return RunPlan(waits, delay=delay)
    last, passed = schedule.last_until(now), _count(schedule, expected, now)
    is_late = deadline is not None and now - last > timedelta(seconds=deadline)
    missed = status.missed_runs + (passed if is_late else passed - 1)
    return RunPlan(
        msgspec.structs.replace(waits, missed_runs=missed), due=None if is_late else last, delay=delay
    )


def time_to_live(checkup: Checkup, now: datetime) -> float | None:
    """Return the seconds until a finished Checkup is to be deleted; None if it stays."""
    ttl, status = checkup.spec.ttl_seconds_after_finished, checkup.status
    ended = parse_time(status.completion_time) if status.verdict is not None else None
    if ttl is None or checkup.spec.schedule or ended is None or status.run == 0:
        return None  # a Checkup that is invalid has not run, and can still be corrected
    return ttl - (now - ended).total_seconds()


def must_replace(checkup: Checkup, now: datetime) -> RunPlan | None:
    """Return the plan of a checkup whose run may have to end for the next one; None if it may not."""
    if checkup.spec.concurrency_policy is not ConcurrencyPolicy.REPLACE:
        return None
    return plan(checkup, now, cancelled=False)


def _without_next_run(status: CheckupStatus, why: ScheduleReason, message: str = "") -> CheckupStatus:
    return _with_condition(msgspec.structs.replace(status, next_run_time=None), why, message)


def _with_condition(status: CheckupStatus, why: ScheduleReason, message: str = "") -> CheckupStatus:
    state = "True" if why is ScheduleReason.SCHEDULED else "False"
    condition = Condition(SCHEDULED, state, why, message or _MESSAGES[why])
    others = (each for each in status.conditions if each.type != SCHEDULED)
    return msgspec.structs.replace(status, conditions=(*others, condition))


def _count(schedule: Schedule, first: datetime, now: datetime) -> int:
    """Return how many times of the schedule have passed, from the first one on."""
    later = takewhile(lambda moment: moment <= now, schedule.times_after(first))
    return 1 + sum(1 for _ in islice(later, MOST_COUNTED - 1))
