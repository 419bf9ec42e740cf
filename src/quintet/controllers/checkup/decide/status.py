"""Status of a Checkup, from the progress of its run."""

from datetime import datetime

import msgspec

from quintet.apis.checkup import Checkup, CheckupStatus, Phase, Verdict
from quintet.apis.checkup.contract import object_name
from quintet.apis.checkup.evidence import Evidence
from quintet.apis.checkup.results import Results
from quintet.apis.checkup.types import CANCEL, LONGEST_RERUN, RERUN
from quintet.apis.meta import Condition, find_condition
from quintet.apis.text import truncate
from quintet.controllers.checkup.decide import history
from quintet.controllers.checkup.decide.observed import Obstacle, ObstacleReason
from quintet.controllers.checkup.decide.scheduling import SCHEDULED, RunPlan
from quintet.controllers.checkup.decide.timing import duration, format_time, parse_time
from quintet.controllers.checkup.decide.verdict import Ending, flaky_ending, invalid_ending, is_retried

SUCCEEDED, FAILED, RUNNING = "Succeeded", "Failed", "Running"
_LONGEST = 4096
_NOT_YET = "the checkup has not finished"


def is_over(checkup: Checkup) -> bool:
    """Return whether the verdict is final. An invalid spec that never ran can still be corrected."""
    status = checkup.status
    if status.verdict is Verdict.INVALID and status.start_time is None:
        return status.observed_generation == checkup.metadata.generation
    return status.verdict is not None


def is_running(checkup: Checkup) -> bool:
    """Return whether a run has started and not ended."""
    status = checkup.status
    return status.start_time is not None and status.verdict is None and not is_retrying(checkup)


def is_retrying(checkup: Checkup) -> bool:
    """Return whether a run has ended that is followed by another attempt."""
    return checkup.status.phase is Phase.RETRYING


def is_run_requested(checkup: Checkup) -> bool:
    """Return whether a checkup that does not run is to run now, whatever its schedule is."""
    if is_retrying(checkup) or (not is_over(checkup) and not checkup.spec.schedule):
        return True
    asked = requested_rerun(checkup)
    never = checkup.status.verdict is Verdict.INVALID and checkup.status.start_time is None
    return not never and asked not in ("", checkup.status.observed_rerun) and not is_cancel_requested(checkup)


def is_cancel_requested(checkup: Checkup) -> bool:
    """Return whether the run is to be cancelled."""
    return checkup.metadata.annotations.get(CANCEL, "").lower() == "true"


def reported_obstacle(status: CheckupStatus) -> Obstacle | None:
    """Return the obstacle that the status reports, if it reports one."""
    if status.verdict is not None or status.reason not in set(ObstacleReason):
        return None
    return Obstacle(ObstacleReason(status.reason), status.message)


def requested_rerun(checkup: Checkup) -> str:
    """Return the value of the rerun annotation."""
    return checkup.metadata.annotations.get(RERUN, "")[:LONGEST_RERUN]


def started_status(checkup: Checkup, plan: RunPlan, now: str) -> CheckupStatus:
    """Return the status at the start of the next run; the previous run moves to the history."""
    old, again = plan.status, is_retrying(checkup)
    number = old.run + 1
    name = object_name(checkup.metadata.name, checkup.metadata.uid, number)
    return CheckupStatus(
        observed_generation=checkup.metadata.generation,
        phase=Phase.PENDING,
        run=number,
        start_time=now,
        scheduled_time=old.scheduled_time if again else format_time(plan.due) if plan.due else None,
        attempt=max(old.attempt, 1) + 1 if again else 0,
        evidence=old.evidence if again else None,
        next_run_time=old.next_run_time,
        missed_runs=old.missed_runs,
        # A rerun that is requested during the attempts follows them.
        observed_rerun=old.observed_rerun if again else requested_rerun(checkup),
        config_map=name,
        history=history.add_run(old, checkup.spec, keep=1 if again else 0),
        conditions=old.conditions,
    )


def scheduled_status(checkup: Checkup, status: CheckupStatus) -> CheckupStatus:
    """Return the status of a checkup with a schedule that has not run yet."""
    found = find_condition(status.conditions, SCHEDULED)
    reason, message = (found.reason, found.message) if found is not None else ("", "")
    return _phase_status(checkup, status, Phase.SCHEDULED, reason, message, Results(), "False")


def with_job(status: CheckupStatus, name: str, uid: str) -> CheckupStatus:
    """Return the status with the Job recorded: from now on a missing Job was deleted."""
    return msgspec.structs.replace(status, job=name, job_uid=uid)


def waiting_status(checkup: Checkup, status: CheckupStatus, found: Obstacle | None) -> CheckupStatus:
    """Return the status while the checkup does not run yet."""
    phase = Phase.STARTING if status.job_uid else Phase.PENDING
    reason = found.reason.value if found is not None else phase.value
    message = found.message if found is not None else "the pod of the checkup is starting"
    return _phase_status(checkup, status, phase, reason, message, Results(), "False")


def running_status(checkup: Checkup, status: CheckupStatus, results: Results) -> CheckupStatus:
    """Return the status while the checkup runs, with its results so far."""
    return _phase_status(checkup, status, Phase.RUNNING, "Running", "the checkup is running", results, "True")


def ended_status(
    checkup: Checkup,
    status: CheckupStatus,
    ending: Ending,
    results: Results,
    evidence: Evidence | None,
    at: str,
) -> CheckupStatus:
    """Return the status at the end of an attempt: the last one decides."""
    attempt = max(status.attempt, 1)
    if is_retried(ending, attempt, checkup.spec.retries) and not is_cancel_requested(checkup):
        return _retrying_status(checkup, status, ending, results, evidence, at)
    if attempt > 1 and status.history:
        ending = flaky_ending(ending, attempt, status.history[0])
    return final_status(checkup, status, ending, results, evidence, at)


def final_status(
    checkup: Checkup,
    status: CheckupStatus,
    ending: Ending,
    results: Results,
    evidence: Evidence | None,
    at: str,
) -> CheckupStatus:
    """Return the status at the end of a run."""
    over = _phase_status(checkup, status, Phase.FINISHED, ending.reason, ending.message, results, "False")
    start, end = parse_time(status.start_time), parse_time(at)
    passed = history.has_passed(ending.verdict)
    message = truncate(ending.message, _LONGEST)
    verdicts = (
        *_others(over),
        Condition(SUCCEEDED, "True" if passed else "False", ending.reason, message),
        Condition(FAILED, "False" if passed else "True", ending.reason, message),
        Condition(RUNNING, "False", "Finished", "the checkup has finished"),
    )
    return msgspec.structs.replace(
        over,
        verdict=ending.verdict,
        completion_time=at,
        duration=duration(start, end) if start is not None and end is not None else "",
        failure_reason=ending.failure_reason,
        evidence=evidence or (status.evidence if status.attempt > 1 else None),
        conditions=verdicts,
    )


def invalid_status(checkup: Checkup, problem: str, now: datetime) -> CheckupStatus:
    """Return the status of an invalid spec; no run has started, so the spec may still be corrected."""
    never = msgspec.structs.replace(
        checkup.status, start_time=None, completion_time=None, run=0, config_map="", job="", job_uid=""
    )
    return final_status(checkup, never, invalid_ending(problem), Results(), None, format_time(now))


def _retrying_status(
    checkup: Checkup,
    status: CheckupStatus,
    ending: Ending,
    results: Results,
    evidence: Evidence | None,
    at: str,
) -> CheckupStatus:
    """Return the status at the end of an attempt that is followed by another one."""
    over = final_status(checkup, status, ending, results, evidence, at)
    message = f"attempt {max(status.attempt, 1)} of {checkup.spec.retries + 1}: {ending.message}"
    waits = _phase_status(checkup, over, Phase.RETRYING, ending.reason, message, results, "False")
    return msgspec.structs.replace(waits, history=history.add_run(over, checkup.spec, keep=1))


def _phase_status(
    checkup: Checkup,
    status: CheckupStatus,
    phase: Phase,
    reason: str,
    message: str,
    results: Results,
    runs: str,
) -> CheckupStatus:
    message = truncate(message, _LONGEST)
    return msgspec.structs.replace(
        status,
        observed_generation=checkup.metadata.generation,
        phase=phase,
        verdict=None,
        reason=reason,
        message=message,
        results=results.text,
        result_map=results.values,
        conditions=(
            *_others(status),
            Condition(SUCCEEDED, "Unknown", reason, _NOT_YET),
            Condition(FAILED, "Unknown", reason, _NOT_YET),
            Condition(RUNNING, runs, reason, message),
        ),
    )


def _others(status: CheckupStatus) -> tuple[Condition, ...]:
    """Return the conditions that are not about the run."""
    return tuple(each for each in status.conditions if each.type not in (SUCCEEDED, FAILED, RUNNING))
