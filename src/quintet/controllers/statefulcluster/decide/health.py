"""Whether a pod is well, and how often one that is not may be replaced. Pure.

Removing an unhealthy pod helps against a bad node and not against a bad program. So each removal
makes the next one of that revision wait longer, and after some the pods are left as they are:
somebody has to look, and what they need to see must still be there.
"""

from quintet.apis.statefulcluster import Setback
from quintet.controllers.statefulcluster.decide.observed import (
    PENDING,
    Observed,
    Pod,
    format_timestamp,
    parse_timestamp,
)

MAX_SETBACKS = 5
"""So many removals of unhealthy pods of one revision, and then no more."""
SETBACKS_EXPIRE_AFTER = 600.0
"""Seconds in which all is well, until earlier removals no longer count."""
_FIRST_WAIT, _LONGEST_WAIT = 10.0, 300.0
_ENDED = ("Failed", "Succeeded", "Unknown")


def unhealthy_reason(observed: Observed, pod: Pod) -> str:
    """What is wrong with a pod, for people; empty if nothing is, or not yet."""
    if pod.phase in _ENDED:
        return f"its phase is {pod.phase}"
    if pod.phase == PENDING or pod.ready or observed.now < unhealthy_at(observed, pod):
        return ""
    if pod.crash:
        return pod.crash
    return f"it has not been ready since {format_timestamp(not_ready_since(pod))}"


def not_ready_since(pod: Pod) -> float:
    """Since when a pod could be ready and is not: a slow starter is not unhealthy."""
    return max(pod.ready_since, pod.started_at, pod.created)


def unhealthy_at(observed: Observed, pod: Pod) -> float:
    """When a pod that is not ready begins to count as unhealthy."""
    grace = observed.wanted.grace
    if pod.crash:
        return pod.created + grace
    return not_ready_since(pod) + grace if pod.started else float("inf")


def may_remove_at(setback: Setback) -> float:
    """When the next unhealthy pod of a revision may be removed."""
    if setback.count == 0:
        return 0.0
    return parse_timestamp(setback.last) + min(_FIRST_WAIT * 2.0 ** (setback.count - 1), _LONGEST_WAIT)


def is_abandoned(setback: Setback) -> bool:
    """Whether removing pods of this revision has been tried often enough."""
    return setback.count >= MAX_SETBACKS


def abandoned_message(observed: Observed) -> str:
    """What to say of a pod that is unhealthy and is no longer replaced, if there is one."""
    for pod in observed.active:
        setback, wrong = observed.setback(pod.revision), unhealthy_reason(observed, pod)
        if wrong and is_abandoned(setback):
            return abandoned_text(f"pod {pod.name} is unhealthy: {wrong}", setback)
    return ""


def abandoned_text(text: str, setback: Setback) -> str:
    """What is said of such a pod, and what somebody can do."""
    return (
        f"{text}; {setback.count} pods of this template were replaced and it did not help: "
        "correct spec.template, or delete the pod to have it replaced once more"
    )


def setbacks_expire_at(observed: Observed) -> float | None:
    """When the removals so far no longer count, if all goes on as well as it does."""
    if not observed.setbacks or len(observed.available) < observed.wanted.replicas:
        return None
    return max(parse_timestamp(entry.last) for entry in observed.setbacks) + SETBACKS_EXPIRE_AFTER


def setbacks_after(observed: Observed, removed: Pod | None) -> tuple[Setback, ...]:
    """The memory of removals, with one more if there is one."""
    forgiven = setbacks_expire_at(observed)
    if forgiven is not None and observed.now >= forgiven:
        kept: tuple[Setback, ...] = ()
    else:
        alive = {
            observed.update_revision,
            observed.current_revision,
            *(pod.revision for pod in observed.pods),
        }
        kept = tuple(entry for entry in observed.setbacks if entry.revision in alive)
    if removed is None:
        return kept
    known = observed.setback(removed.revision)
    others = tuple(entry for entry in kept if entry.revision != removed.revision)
    return (*others, Setback(removed.revision, known.count + 1, format_timestamp(observed.now)))
