"""What is wrong with the pods of a process. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from quintet.apis.meta import Condition, ObjectKey, Struct
from quintet.controllers.decide.causes import (
    Cause,
    CauseReason,
    DeploymentCondition,
    cause_of_deployment,
    cause_of_pod,
    choose_cause,
)
from quintet.controllers.decide.pods import PodView

_RECENT = timedelta(minutes=10)
_MANY_RESTARTS = 3
PROCESS = "app.kubernetes.io/name"
"""Label of a pod: the name of its Deployment."""
_OUT_OF_MEMORY = "OOMKilled"


class ProcessPod(Struct, frozen=True):
    """The cached part of a pod."""

    key: ObjectKey
    version: int
    process: str
    """The name of its Deployment."""
    cause: Cause | None
    """Why it does not run."""
    restarts: str
    """A description of its restarts, if there were many, or one for lack of memory."""
    restarted_at: str


def reduce_pod(pod: PodView) -> ProcessPod:
    """Return the part of a pod that is cached."""
    ends = pod.metadata.deleting or pod.has_ended
    restarts, restarted_at = ("", "") if ends else _describe_restarts(pod)
    return ProcessPod(
        key=pod.key,
        version=pod.version,
        process=pod.metadata.labels.get(PROCESS, ""),
        cause=None if ends else cause_of_pod(pod),
        restarts=restarts,
        restarted_at=restarted_at,
    )


def _describe_restarts(pod: PodView) -> tuple[str, str]:
    for container in pod.containers:
        ended = container.last_state.terminated
        if ended is None or not container.restart_count:
            continue
        if ended.reason == _OUT_OF_MEMORY or container.restart_count >= _MANY_RESTARTS:
            why = ended.reason or "Error"
            times = f"{container.restart_count} time{'' if container.restart_count == 1 else 's'}"
            text = f"pod {pod.metadata.name} restarted {times}, last: {why} (exit code {ended.exit_code})"
            return text, ended.finished_at or ""
    return "", ""


def find_cause(pods: Iterable[ProcessPod], conditions: Iterable[Condition] = ()) -> str:
    """Return why pods of a Deployment with these conditions do not run; empty if nothing is known."""
    causes = [pod.cause for pod in pods if pod.cause is not None]
    refused = cause_of_deployment(
        DeploymentCondition(each.type, each.status, each.reason, each.message) for each in conditions
    )
    if refused is not None and refused.reason == CauseReason.NO_POD:
        causes.append(refused)
    chosen = choose_cause(causes, "", "")
    return chosen.message if chosen else ""


def recent_restarts(pods: Iterable[ProcessPod], now: datetime) -> Sequence[str]:
    """Return descriptions of the pods that restarted within ten minutes for lack of memory, or often."""
    return sorted(
        pod.restarts
        for pod in pods
        if pod.restarted_at and now - datetime.fromisoformat(pod.restarted_at) < _RECENT
    )
