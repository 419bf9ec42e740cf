"""What to say about a Checkup, from how far its run has come. Pure."""

import msgspec

from quintet.apis.checkup import Checkup, CheckupStatus, Phase, Run, Verdict
from quintet.apis.checkup.contract import object_name
from quintet.apis.checkup.evidence import Evidence
from quintet.apis.checkup.results import Results
from quintet.apis.checkup.types import CANCEL, LONGEST_RERUN, MOST_RUNS, RERUN
from quintet.apis.meta import Condition
from quintet.controllers.checkup.decide.observed import Obstacle
from quintet.controllers.checkup.decide.timing import duration, parse_timestamp
from quintet.controllers.checkup.decide.verdict import Ending

SUCCEEDED, FAILED, RUNNING = "Succeeded", "Failed", "Running"
_LONGEST = 4096
_NOT_YET = "the checkup has not finished"


def is_over(checkup: Checkup) -> bool:
    """Whether the verdict stands. One about a spec that was never run ends with that spec."""
    status = checkup.status
    if status.verdict is Verdict.INVALID and status.start_time is None:
        return status.observed_generation == checkup.metadata.generation
    return status.verdict is not None


def is_rerun_requested(checkup: Checkup) -> bool:
    """Whether a run that is over is to be followed by another."""
    asked = requested_rerun(checkup)
    started = checkup.status.start_time is not None
    return started and asked not in ("", checkup.status.observed_rerun) and not is_cancel_requested(checkup)


def is_cancel_requested(checkup: Checkup) -> bool:
    """Whether somebody wants the run to end."""
    return checkup.metadata.annotations.get(CANCEL, "").lower() == "true"


def requested_rerun(checkup: Checkup) -> str:
    """The value of the annotation that starts another run."""
    return checkup.metadata.annotations.get(RERUN, "")[:LONGEST_RERUN]


def started_status(checkup: Checkup, now: str) -> CheckupStatus:
    """The status at the start of the next run; the run before becomes history."""
    old = checkup.status
    number = old.run + 1
    name = object_name(checkup.metadata.name, checkup.metadata.uid, number)
    return CheckupStatus(
        observed_generation=checkup.metadata.generation,
        phase=Phase.PENDING,
        run=number,
        start_time=now,
        observed_rerun=requested_rerun(checkup),
        config_map=name,
        history=_history(old),
        conditions=old.conditions,
    )


def _history(old: CheckupStatus) -> tuple[Run, ...]:
    if old.verdict is None or old.run == 0:
        return old.history
    last = Run(old.run, old.verdict, old.reason, _cut(old.message, 1024), old.start_time, old.completion_time)
    return (last, *old.history)[:MOST_RUNS]


def with_job(status: CheckupStatus, name: str, uid: str) -> CheckupStatus:
    """The Job is there: from now on, its absence means that somebody deleted it."""
    return msgspec.structs.replace(status, job=name, job_uid=uid)


def waiting_status(checkup: Checkup, status: CheckupStatus, found: Obstacle | None) -> CheckupStatus:
    """The checkup does not run yet."""
    phase = Phase.STARTING if status.job_uid else Phase.PENDING
    reason = found.reason.value if found is not None else phase.value
    message = found.message if found is not None else "the pod of the checkup is on its way"
    return _phase_status(checkup, status, phase, reason, message, Results(), "False")


def running_status(checkup: Checkup, status: CheckupStatus, results: Results) -> CheckupStatus:
    """The checkup runs; what it has written so far is shown."""
    return _phase_status(checkup, status, Phase.RUNNING, "Running", "the checkup is running", results, "True")


def final_status(
    checkup: Checkup,
    status: CheckupStatus,
    ending: Ending,
    results: Results,
    evidence: Evidence | None,
    at: str,
) -> CheckupStatus:
    """The last word about a run."""
    over = _phase_status(checkup, status, Phase.FINISHED, ending.reason, ending.message, results, "False")
    start, end = parse_timestamp(status.start_time), parse_timestamp(at)
    passed = ending.verdict is Verdict.PASSED
    message = _cut(ending.message, _LONGEST)
    verdicts = (
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
        evidence=evidence,
        conditions=verdicts,
    )


def _phase_status(
    checkup: Checkup,
    status: CheckupStatus,
    phase: Phase,
    reason: str,
    message: str,
    results: Results,
    runs: str,
) -> CheckupStatus:
    message = _cut(message, _LONGEST)
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
            Condition(SUCCEEDED, "Unknown", reason, _NOT_YET),
            Condition(FAILED, "Unknown", reason, _NOT_YET),
            Condition(RUNNING, runs, reason, message),
        ),
    )


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
