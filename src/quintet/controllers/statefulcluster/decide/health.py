"""Which pods are unhealthy, and how often unhealthy pods are replaced.

Replacing an unhealthy pod helps against a bad node, not against a bad program. So every replacement delays
the next one of that revision, and after several the pods are kept for inspection.
"""

from quintet.apis.statefulcluster import Setback
from quintet.controllers.statefulcluster.decide.observed import (
    PENDING,
    Observed,
    Pod,
    format_time,
    parse_time,
)

MAX_SETBACKS = 5
"""Replacements of unhealthy pods of one revision, for each replica, before the controller stops."""
SETBACKS_EXPIRE_AFTER = 600.0
"""Seconds of full availability after which earlier replacements no longer count."""
_FIRST_WAIT, _LONGEST_WAIT = 10.0, 300.0
_ENDED = ("Failed", "Succeeded", "Unknown")


def unhealthy_reason(observed: Observed, pod: Pod) -> str:
    """Return why a pod is unhealthy; empty if it is healthy or still within its grace period."""
    if has_ended(pod):
        return f"its phase is {pod.phase}"
    if pod.phase == PENDING or pod.ready or observed.now < unhealthy_at(observed, pod):
        return ""
    if pod.crash:
        return pod.crash
    return f"it has not been ready since {format_time(not_ready_since(pod))}"


def has_ended(pod: Pod) -> bool:
    """Return whether a pod can no longer become ready."""
    return pod.phase in _ENDED


def not_ready_since(pod: Pod) -> float:
    """Return since when a pod has been able to become ready: slow startup is not unhealthy."""
    return max(pod.ready_since, pod.started_at, pod.created)


def unhealthy_at(observed: Observed, pod: Pod) -> float:
    """Return when a pod that is not ready starts to count as unhealthy."""
    grace = observed.spec.grace
    if pod.crash:
        return pod.created + grace
    return not_ready_since(pod) + grace if pod.started else float("inf")


def may_remove_at(observed: Observed, setback: Setback) -> float:
    """Return when the next unhealthy pod of a revision may be removed.

    There is a delay when each replica may have been replaced once, and it doubles with each further round.
    """
    rounds = setback.count // max(1, observed.spec.replicas)
    if rounds == 0:
        return 0.0
    return parse_time(setback.last) + min(_FIRST_WAIT * 2.0 ** (rounds - 1), _LONGEST_WAIT)


def is_abandoned(observed: Observed, setback: Setback) -> bool:
    """Return whether unhealthy pods of this revision are no longer replaced."""
    return setback.count >= MAX_SETBACKS * max(1, observed.spec.replicas)


def abandoned_message(observed: Observed) -> str:
    """Return the message about an unhealthy pod that is no longer replaced; empty if there is none."""
    for pod in observed.active:
        setback, wrong = observed.setback(pod.revision), unhealthy_reason(observed, pod)
        if wrong and is_abandoned(observed, setback):
            return abandoned_text(f"pod {pod.name} is unhealthy: {wrong}", setback)
    return ""


def abandoned_text(text: str, setback: Setback) -> str:
    """Return the message about a pod that is no longer replaced, with the next step for the user."""
    return (
        f"{text}; {setback.count} pods of this template were replaced without success: "
        "correct spec.template, or delete the pod to replace it once more"
    )


def expire_at(observed: Observed) -> float | None:
    """Return when the setbacks so far expire if all replicas stay available."""
    if not observed.setbacks or len(observed.available) < observed.spec.replicas:
        return None
    return max(parse_time(entry.last) for entry in observed.setbacks) + SETBACKS_EXPIRE_AFTER


def setbacks_after(observed: Observed, removed: Pod | None) -> tuple[Setback, ...]:
    """Return the setbacks after an action; `removed` adds one."""
    forgiven = expire_at(observed)
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
    return (*others, Setback(removed.revision, known.count + 1, format_time(observed.now)))
