"""The state of a child object in a word or two: a Deployment 1/1, a Pod Running, a claim Bound. Pure.

Kinds without a state, such as ConfigMap, have an empty state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from quintet.inspect.status import Rating

if TYPE_CHECKING:
    from collections.abc import Callable

    from quintet.apis.meta import JsonObject, Resource

# Reasons for which a container waits during a normal start.
_NORMAL_WAITS = ("ContainerCreating", "PodInitializing", "")


class ChildState(NamedTuple):
    """A state, its rating, and the details of a problem."""

    word: str = ""
    rating: Rating = Rating.NEUTRAL
    detail: str = ""


def has_state(resource: Resource) -> bool:
    """Return whether objects of this type have a state, for which the whole object must be read."""
    return (resource.group, resource.kind) in _STATES


def child_state(resource: Resource, body: JsonObject | None) -> ChildState:
    """Return the state of an object."""
    read_state = _STATES.get((resource.group, resource.kind))
    if read_state is None or body is None:
        return ChildState()
    found = read_state(body)
    if (body.get("metadata") or {}).get("deletionTimestamp"):
        return ChildState(f"{found.word}, terminating".lstrip(", "), Rating.OPEN, found.detail)
    return found


def _pod(body: JsonObject) -> ChildState:
    status = body.get("status") or {}
    phase = str(status.get("phase") or "Pending")
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for each in containers:
        waiting = (each.get("state") or {}).get("waiting") or {}
        if str(waiting.get("reason") or "") not in _NORMAL_WAITS:
            detail = f"container {each.get('name')}: {waiting.get('message') or waiting['reason']}"
            return ChildState(f"{phase}, {waiting['reason']}", Rating.BAD, detail)
    if phase in ("Failed", "Unknown"):
        return ChildState(
            phase, Rating.BAD, str(status.get("message") or status.get("reason") or _exit_codes(containers))
        )
    if phase == "Succeeded":
        return ChildState(phase, Rating.GOOD)
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    scheduled, ready = conditions.get("PodScheduled") or {}, conditions.get("Ready") or {}
    if scheduled.get("status") == "False":
        reason = str(scheduled.get("reason") or "not scheduled")
        return ChildState(f"{phase}, {reason}", Rating.BAD, str(scheduled.get("message") or ""))
    if phase == "Running" and ready.get("status") == "True":
        restarts = sum(int(each.get("restartCount") or 0) for each in containers)
        return ChildState(f"Running, {restarts} restarts" if restarts else "Running", Rating.GOOD)
    word = "Running, not ready" if phase == "Running" else phase
    return ChildState(word, Rating.OPEN, str(ready.get("message") or ""))


def _exit_codes(containers: list[Any]) -> str:
    ends = [
        f"container {each.get('name')} ended with exit code {ended.get('exitCode')}"
        for each in containers
        if (ended := (each.get("state") or {}).get("terminated")) and ended.get("exitCode")
    ]
    return "; ".join(ends)


def _replicas(body: JsonObject) -> ChildState:
    desired = (body.get("spec") or {}).get("replicas")
    return _replica_state(body, "readyReplicas", 1 if desired is None else int(desired))


def _daemons(body: JsonObject) -> ChildState:
    return _replica_state(
        body, "numberReady", int((body.get("status") or {}).get("desiredNumberScheduled") or 0)
    )


def _replica_state(body: JsonObject, field: str, desired: int) -> ChildState:
    status = body.get("status") or {}
    ready = int(status.get(field) or 0)
    word = f"{ready}/{desired}"
    for each in status.get("conditions") or ():
        failure = each.get("type") == "ReplicaFailure" and each.get("status") == "True"
        if failure or each.get("reason") == "ProgressDeadlineExceeded":
            return ChildState(word, Rating.BAD, str(each.get("message") or ""))
    if desired == 0 and ready == 0:
        return ChildState(word)
    return ChildState(word, Rating.GOOD if ready >= desired else Rating.OPEN)


def _job(body: JsonObject) -> ChildState:
    status = body.get("status") or {}
    for each in status.get("conditions") or ():
        if each.get("status") != "True":
            continue
        if each.get("type") == "Complete":
            return ChildState("Complete", Rating.GOOD)
        if each.get("type") in ("Failed", "FailureTarget"):
            return ChildState(f"Failed, {each.get('reason')}", Rating.BAD, str(each.get("message") or ""))
        if each.get("type") == "Suspended":
            return ChildState("Suspended", Rating.OPEN)
    return ChildState(f"{int(status.get('active') or 0)} active", Rating.OPEN)


def _claim(body: JsonObject) -> ChildState:
    phase = str((body.get("status") or {}).get("phase") or "Pending")
    ratings = {"Bound": Rating.GOOD, "Lost": Rating.BAD}
    return ChildState(
        phase, ratings.get(phase, Rating.OPEN), "its volume no longer exists" if phase == "Lost" else ""
    )


def _endpoints(body: JsonObject) -> ChildState:
    each = [(one.get("conditions") or {}).get("ready") is not False for one in body.get("endpoints") or ()]
    return ChildState(f"{sum(each)}/{len(each)} endpoints")


_STATES: dict[tuple[str, str], Callable[[JsonObject], ChildState]] = {
    ("", "Pod"): _pod,
    ("", "PersistentVolumeClaim"): _claim,
    ("apps", "Deployment"): _replicas,
    ("apps", "ReplicaSet"): _replicas,
    ("apps", "StatefulSet"): _replicas,
    ("apps", "DaemonSet"): _daemons,
    ("batch", "Job"): _job,
    ("discovery.k8s.io", "EndpointSlice"): _endpoints,
}
