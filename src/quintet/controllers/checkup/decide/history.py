"""The runs before the current one, with their most important results."""

from quintet.apis.checkup import CheckupSpec, CheckupStatus, Run, Verdict
from quintet.apis.checkup.types import KEPT_RESULT_BYTES, KEPT_RESULT_LENGTH
from quintet.apis.text import truncate


def add_run(status: CheckupStatus, spec: CheckupSpec, *, keep: int = 0) -> tuple[Run, ...]:
    """Return the history with the run that the status describes, within the limits of the spec.

    The first `keep` runs stay in any case.
    """
    runs = status.history
    if status.verdict is not None and status.run > 0:
        runs = (_summary(status, status.verdict), *runs)
    limits = {True: spec.successful_runs_history_limit, False: spec.failed_runs_history_limit}
    kept = []
    for number, run in enumerate(runs):
        passed = has_passed(run.verdict)
        if limits[passed] > 0 or number < keep:
            limits[passed] -= 1
            kept.append(run)
    return tuple(kept)


def has_passed(verdict: Verdict) -> bool:
    """Return whether a verdict says that the checkup passed, perhaps not at its first attempt."""
    return verdict in (Verdict.PASSED, Verdict.FLAKY)


def _summary(status: CheckupStatus, verdict: Verdict) -> Run:
    results = keep_results(status.result_map)
    return Run(
        run=status.run,
        verdict=verdict,
        reason=status.reason,
        message=truncate(status.message, 1024),
        start_time=status.start_time,
        completion_time=status.completion_time,
        scheduled_time=status.scheduled_time,
        attempt=status.attempt,
        results=results,
        results_omitted=len(status.result_map) - len(results),
    )


def keep_results(results: dict[str, str]) -> dict[str, str]:
    """Return the results that the history keeps: short ones, in order of their names, up to a total size."""
    kept, size = {}, 0
    for name, value in sorted(results.items()):
        bytes_ = len(name.encode()) + len(value.encode())
        if len(value) <= KEPT_RESULT_LENGTH and size + bytes_ <= KEPT_RESULT_BYTES:
            kept[name] = value
            size += bytes_
    return kept
