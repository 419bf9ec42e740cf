"""How a child stands, in a word or two: a Deployment 1/1, a Pod Running, a claim Bound. Pure.

Called by `tree` and `explain`. Kinds that have no state of their own, such as a ConfigMap, have no word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from quintet.cli.standing import Mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from quintet.apis.meta import JsonObject, Resource

# What a container waits for while all is well.
_PATIENCE = ("ContainerCreating", "PodInitializing", "")


class State(NamedTuple):
    """A word, what to think of it, and the details if it is bad."""

    word: str = ""
    mark: Mark = Mark.NEUTRAL
    detail: str = ""


def has_state(resource: Resource) -> bool:
    """Whether one has to look into an object of that type, beyond its metadata."""
    return (resource.group, resource.kind) in _STATES


def state(resource: Resource, body: JsonObject | None) -> State:
    """How an object stands."""
    judge = _STATES.get((resource.group, resource.kind))
    if judge is None or body is None:
        return State()
    found = judge(body)
    if (body.get("metadata") or {}).get("deletionTimestamp"):
        return State(f"{found.word}, terminating".lstrip(", "), Mark.OPEN, found.detail)
    return found


def _pod(body: JsonObject) -> State:
    status = body.get("status") or {}
    phase = str(status.get("phase") or "Pending")
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for each in containers:
        waiting = (each.get("state") or {}).get("waiting") or {}
        if str(waiting.get("reason") or "") not in _PATIENCE:
            detail = f"container {each.get('name')}: {waiting.get('message') or waiting['reason']}"
            return State(f"{phase}, {waiting['reason']}", Mark.BAD, detail)
    if phase in ("Failed", "Unknown"):
        return State(
            phase, Mark.BAD, str(status.get("message") or status.get("reason") or _ended(containers))
        )
    if phase == "Succeeded":
        return State(phase, Mark.GOOD)
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    scheduled, ready = conditions.get("PodScheduled") or {}, conditions.get("Ready") or {}
    if scheduled.get("status") == "False":
        reason = str(scheduled.get("reason") or "not scheduled")
        return State(f"{phase}, {reason}", Mark.BAD, str(scheduled.get("message") or ""))
    if phase == "Running" and ready.get("status") == "True":
        restarts = sum(int(each.get("restartCount") or 0) for each in containers)
        return State(f"Running, {restarts} restarts" if restarts else "Running", Mark.GOOD)
    word = "Running, not ready" if phase == "Running" else phase
    return State(word, Mark.OPEN, str(ready.get("message") or ""))


def _ended(containers: list[Any]) -> str:
    ends = [
        f"container {each.get('name')} ended with exit code {ended.get('exitCode')}"
        for each in containers
        if (ended := (each.get("state") or {}).get("terminated")) and ended.get("exitCode")
    ]
    return "; ".join(ends)


def _replicas(body: JsonObject) -> State:
    wanted = (body.get("spec") or {}).get("replicas")
    return _counted(body, "readyReplicas", 1 if wanted is None else int(wanted))


def _daemons(body: JsonObject) -> State:
    return _counted(body, "numberReady", int((body.get("status") or {}).get("desiredNumberScheduled") or 0))


def _counted(body: JsonObject, field: str, wanted: int) -> State:
    status = body.get("status") or {}
    ready = int(status.get(field) or 0)
    word = f"{ready}/{wanted}"
    for each in status.get("conditions") or ():
        failure = each.get("type") == "ReplicaFailure" and each.get("status") == "True"
        if failure or each.get("reason") == "ProgressDeadlineExceeded":
            return State(word, Mark.BAD, str(each.get("message") or ""))
    if wanted == 0 and ready == 0:
        return State(word)
    return State(word, Mark.GOOD if ready >= wanted else Mark.OPEN)


def _job(body: JsonObject) -> State:
    status = body.get("status") or {}
    for each in status.get("conditions") or ():
        if each.get("status") != "True":
            continue
        if each.get("type") == "Complete":
            return State("Complete", Mark.GOOD)
        if each.get("type") in ("Failed", "FailureTarget"):
            return State(f"Failed, {each.get('reason')}", Mark.BAD, str(each.get("message") or ""))
        if each.get("type") == "Suspended":
            return State("Suspended", Mark.OPEN)
    return State(f"{int(status.get('active') or 0)} active", Mark.OPEN)


def _claim(body: JsonObject) -> State:
    phase = str((body.get("status") or {}).get("phase") or "Pending")
    marks = {"Bound": Mark.GOOD, "Lost": Mark.BAD}
    return State(phase, marks.get(phase, Mark.OPEN), "its volume is gone" if phase == "Lost" else "")


def _endpoints(body: JsonObject) -> State:
    each = [(one.get("conditions") or {}).get("ready") is not False for one in body.get("endpoints") or ()]
    return State(f"{sum(each)}/{len(each)} endpoints")


_STATES: dict[tuple[str, str], Callable[[JsonObject], State]] = {
    ("", "Pod"): _pod,
    ("", "PersistentVolumeClaim"): _claim,
    ("apps", "Deployment"): _replicas,
    ("apps", "ReplicaSet"): _replicas,
    ("apps", "StatefulSet"): _replicas,
    ("apps", "DaemonSet"): _daemons,
    ("batch", "Job"): _job,
    ("discovery.k8s.io", "EndpointSlice"): _endpoints,
}
