"""How many replicas are missing, starting or terminating, and what does not have to wait for them."""

from typing import Final

from quintet.controllers.statefulcluster.decide import health
from quintet.controllers.statefulcluster.decide.observed import Observed, Pod

OVERDUE: Final = 60.0
"""Seconds after the end of its grace period at which a terminating pod is reported as stuck."""


def count_replicas(observed: Observed) -> int:
    """Count the replicas that exist or are recorded."""
    return len(observed.active) + len(observed.open_draws)


def is_stuck(observed: Observed, pod: Pod) -> bool:
    """Return whether a terminating pod should have ended long ago."""
    return pod.leaves_by is not None and observed.now >= pod.leaves_by + OVERDUE


def awaited_leaving(observed: Observed) -> list[Pod]:
    """Return the terminating pods that new replicas wait for. A stuck one without claims holds nothing."""
    return [pod for pod in observed.leaving if pod.group or not is_stuck(observed, pod)]


def count_replaceable_leaving(observed: Observed) -> int:
    """Count terminating pods whose claims the next replica should adopt."""
    drawn_names = {draw.replica for draw in observed.open_draws}
    return sum(pod.name not in drawn_names for pod in awaited_leaving(observed))


def waits_for_leaving(observed: Observed) -> bool:
    """Return whether a terminating pod holds up the next change. A stuck one does not."""
    going = any(not is_stuck(observed, pod) for pod in observed.leaving)
    return going and not observed.spec.parallel


def may_remove_unhealthy(observed: Observed, pod: Pod) -> bool:
    """Return whether an unhealthy pod may be removed now.

    Replicas often become unready together, because one of them is missing. So the missing one becomes
    available before the next is removed, also with podManagementPolicy Parallel. A pod that has ended cannot
    recover and does not have to wait.
    """
    if health.has_ended(pod):
        return True
    missing = max(0, observed.spec.replicas - len(observed.active))
    return len(starting_pods(observed)) + missing < observed.spec.max_unavailable


def starting_pods(observed: Observed) -> list[Pod]:
    """Return the pods that are not available and can become so without help."""
    return [
        pod
        for pod in observed.active
        if not observed.is_available(pod) and not health.unhealthy_reason(observed, pod)
    ]


def may_create_now(observed: Observed) -> bool:
    """Return whether a replica can be created without waiting for others."""
    if not observed.spec.parallel:
        return False
    held = {pod.name for pod in observed.leaving}
    waiting = [draw for draw in observed.open_draws if draw.replica not in held]
    return (
        bool(waiting)
        or count_replicas(observed) + count_replaceable_leaving(observed) < observed.spec.replicas
    )


def has_room_to_create(observed: Observed) -> bool:
    """Return whether maxUnavailable allows another replica to be created now.

    An unhealthy pod does not hold up the others: it may stay as it is for ever.
    """
    return len(starting_pods(observed)) + len(awaited_leaving(observed)) < observed.spec.max_unavailable


def seconds_until(observed: Observed, due: float | None) -> float | None:
    """Return in how many seconds to reconcile for something that is due; None if it never is."""
    if due is None or due == float("inf"):
        return None
    return max(0.0, due - observed.now) + 0.1
