"""Verdict of a run, from its Job, its pod and its results."""

from dataclasses import dataclass
from enum import StrEnum

from quintet.apis.checkup import Run, Verdict
from quintet.apis.checkup.results import Results
from quintet.apis.checkup.types import CANCEL, RERUN, SUCCEEDED
from quintet.controllers.checkup.decide.observed import CheckupPod, JobState, Obstacle, ObstacleReason


class Reason(StrEnum):
    """Why a run ended, in addition to `ObstacleReason` and the flaws of results. See docs/checkup.md."""

    SUCCEEDED = "CheckupSucceeded"
    RETRIED = "PassedAfterRetry"
    FAILED = "CheckupFailed"
    CONTRADICTION = "SuccessThenCrash"
    CRASHED = "ContainerFailed"
    DEADLINE = "DeadlineExceeded"
    DISRUPTED = "PodDisrupted"
    POD_LOST = "PodLost"
    CANCELLED = "Cancelled"
    REPLACED = "ReplacedByNextRun"
    JOB_DELETED = "JobDeleted"
    INVALID = "InvalidSpec"


@dataclass(frozen=True, slots=True)
class Ending:
    """Verdict and reason of a finished run."""

    verdict: Verdict
    reason: str
    message: str
    failure_reason: str = ""
    """Failure reason that the checkup reported."""


# Set by the kubelet or the control plane if a pod is ended from outside.
_DISRUPTIONS = frozenset({"Evicted", "Preempting", "NodeLost", "NodeShutdown", "Terminated", "Shutdown"})
# The container runtime could not start the image's command.
_NO_START = frozenset({"StartError", "ContainerCannotRun", "RunContainerError"})

_NEXT_STEPS = {
    ObstacleReason.NO_SERVICE_ACCOUNT: "create it, or name another one in a new Checkup",
    ObstacleReason.FOREIGN_OBJECT: "delete or rename that object, then rerun",
    ObstacleReason.SETUP_REFUSED: "check the quotas and policies of the namespace, then rerun",
    ObstacleReason.SETUP_FAILED: "check whether the API server is healthy, then rerun",
    ObstacleReason.INVALID_TEMPLATE: "correct spec.template in a new Checkup",
    ObstacleReason.NO_POD: "fix the cause in the message (a quota, Pod Security, a webhook), then rerun",
    ObstacleReason.UNSCHEDULABLE: "free resources on the nodes, or relax spec.template, then rerun",
    ObstacleReason.IMAGE: "check spec.image and whether the nodes can pull it, then rerun",
    ObstacleReason.VOLUME: "create what the message names, or correct spec.template, then rerun",
    ObstacleReason.CONTAINER: "fix the cause in the message, then rerun",
}


def ending_of_job(job: JobState, pod: CheckupPod | None, results: Results) -> Ending:
    """Return the ending for a Job or a checkup container that has finished.

    The container decides: a sidecar that runs on, fails or is stopped does not change the verdict.
    """
    infra = _disruption(pod) if pod is not None else None
    is_late = "DeadlineExceeded" in (job.reason, pod.status.reason if pod is not None else "")
    ended_well = pod is not None and pod.exit_code == 0
    if job.succeeded or (ended_well and (results.succeeded or not (infra or is_late))):
        return _ending_by_results(results)
    if infra is not None:
        return infra
    if is_late:
        return _late_ending(pod, results, "the deadline of its pod or Job was exceeded")
    if pod is None:
        text = f"the pod is gone and its Job failed: {job.message or job.reason}"
        return Ending(Verdict.INFRA_ERROR, Reason.POD_LOST, f"{text}; next: rerun")
    if pod.metadata.deleting and results.succeeded is None:
        return pod_deleted_ending(pod)
    return _crash_ending(pod, results)


def ending_at_deadline(
    pod: CheckupPod | None, waits_for: Obstacle | None, seconds: int, results: Results
) -> Ending:
    """Return the ending for a run that exceeded its deadline."""
    if pod is not None and (infra := _disruption(pod)) is not None:
        return infra
    if pod is not None and pod.running_since is not None:
        return _late_ending(pod, results, f"it ran for more than {seconds} s")
    if waits_for is not None:
        return ending_of_obstacle(waits_for)
    missing = "the Job created no pod" if pod is None else f"pod {pod.metadata.name} did not start"
    found = ObstacleReason.NO_POD if pod is None else ObstacleReason.CONTAINER
    return ending_of_obstacle(Obstacle(found, f"{missing} in time"))


def ending_of_obstacle(found: Obstacle) -> Ending:
    """Return the ending for a checkup that cannot run."""
    verdict = Verdict.INVALID if found.reason is ObstacleReason.INVALID_TEMPLATE else Verdict.INFRA_ERROR
    return Ending(verdict, found.reason, f"{found.message}; next: {_NEXT_STEPS[found.reason]}")


def is_retried(ending: Ending, attempt: int, retries: int) -> bool:
    """Return whether a run is followed by another attempt."""
    failures = (Verdict.FAILED, Verdict.TIMED_OUT, Verdict.INFRA_ERROR)
    return ending.verdict in failures and attempt <= retries


def flaky_ending(ending: Ending, attempt: int, before: Run) -> Ending:
    """Return the ending of an attempt that passed after another had not."""
    if ending.verdict is not Verdict.PASSED:
        return ending
    text = (
        f"passed at attempt {attempt}; run {before.run} before it: {before.reason}: {before.message}; next: "
        "read status.evidence, which is that of the last attempt that did not pass"
    )
    return Ending(Verdict.FLAKY, Reason.RETRIED, text)


def cancelled_ending() -> Ending:
    """Return the ending for a cancelled run."""
    text = (
        f"cancelled by the annotation {CANCEL}; next: remove it and set {RERUN} to a new value to run again"
    )
    return Ending(Verdict.CANCELLED, Reason.CANCELLED, text)


def replaced_ending() -> Ending:
    """Return the ending for a run that still went on when the next one was due."""
    text = (
        "the next run of the schedule was due and spec.concurrencyPolicy is Replace; next: if this is not "
        "intended, run it less often, or set Forbid"
    )
    return Ending(Verdict.CANCELLED, Reason.REPLACED, text)


def pod_deleted_ending(pod: CheckupPod) -> Ending:
    """Return the ending for a run whose pod was deleted or disrupted."""
    if (infra := _disruption(pod)) is not None:
        return infra
    text = f"pod {pod.metadata.name} was deleted during the run; next: rerun"
    return Ending(Verdict.INFRA_ERROR, Reason.POD_LOST, text)


def job_deleted_ending(name: str) -> Ending:
    """Return the ending for a run whose Job was deleted."""
    text = f"Job {name} was deleted during the run; next: set {RERUN} to a new value"
    return Ending(Verdict.CANCELLED, Reason.JOB_DELETED, text)


def invalid_ending(problem: str) -> Ending:
    """Return the ending for an invalid spec that bypassed the webhooks."""
    return Ending(Verdict.INVALID, Reason.INVALID, f"{problem}; next: correct the spec")


def _ending_by_results(results: Results) -> Ending:
    if results.flaw is not None:
        text = f"{results.problem}; next: fix the image, see docs/checkup-write-your-own.md"
        return Ending(Verdict.FAILED, results.flaw, text, results.failure_reason)
    if results.succeeded:
        return Ending(Verdict.PASSED, Reason.SUCCEEDED, SUCCEEDED)
    detail = results.failure_reason or "the checkup gave no reason"
    return Ending(Verdict.FAILED, Reason.FAILED, detail, results.failure_reason)


def _late_ending(pod: CheckupPod | None, results: Results, how: str) -> Ending:
    if pod is None or pod.running_since is None:
        where = f"pod {pod.metadata.name}" if pod is not None else "the pod"
        text = f"{where} did not start the checkup in time"
        return ending_of_obstacle(Obstacle(ObstacleReason.CONTAINER, text))
    text = (
        f"the checkup was stopped: {how}; next: read status.evidence; if the checkup is only slow, raise "
        "spec.timeoutSeconds in a new Checkup"
    )
    return Ending(Verdict.TIMED_OUT, Reason.DEADLINE, text, results.failure_reason)


def _disruption(pod: CheckupPod) -> Ending | None:
    status = pod.status
    targeted = any(
        condition.type == "DisruptionTarget" and condition.status == "True" for condition in status.conditions
    )
    if targeted or status.reason in _DISRUPTIONS:
        detail = ": ".join(part for part in (status.reason, status.message) if part) or "it was disrupted"
        text = f"pod {pod.metadata.name} was terminated by the cluster: {detail}; next: rerun"
        return Ending(Verdict.INFRA_ERROR, Reason.DISRUPTED, text)
    ended = pod.checkup.state.terminated if pod.checkup is not None else None
    if ended is not None and ended.reason in _NO_START:
        text = f"container checkup could not be started: {ended.reason}: {ended.message}"
        return ending_of_obstacle(Obstacle(ObstacleReason.CONTAINER, text))
    return None


def _crash_ending(pod: CheckupPod, results: Results) -> Ending:
    ended = pod.checkup.state.terminated if pod.checkup is not None else None
    how = f"exit code {ended.exit_code}" if ended is not None else "a failed pod"
    how = f"{how} ({ended.reason})" if ended is not None and ended.reason not in ("", "Error") else how
    if results.succeeded:
        text = f"the checkup reported success, but then ended with {how}; next: read status.evidence"
        return Ending(Verdict.FAILED, Reason.CONTRADICTION, text)
    if results.succeeded is False and results.failure_reason:
        return Ending(Verdict.FAILED, Reason.FAILED, results.failure_reason, results.failure_reason)
    text = (
        f"the checkup ended with {how}: {results.problem or 'it gave no reason'}; next: read status.evidence"
    )
    return Ending(Verdict.FAILED, Reason.CRASHED, text, results.failure_reason)
