"""Bugs that the controller had, to put back one at a time: the world must find each of them."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

from quintet.apis.statefulcluster import ClaimState
from quintet.controllers.statefulcluster import controller
from quintet.controllers.statefulcluster.decide import (
    claims,
    dataloss,
    health,
    ledger,
    plan,
    progress,
)
from quintet.controllers.statefulcluster.decide.actions import Act, Action
from quintet.controllers.statefulcluster.decide.desired import PODS
from quintet.controllers.statefulcluster.decide.observed import Observed, Pod
from quintet.controllers.statefulcluster.writer import ReplicaWriter


def _give_up_at_once(observed: Observed, pod: Pod, group: Any, loss: Any) -> dataloss.DataLossDecision:
    return dataloss.DataLossDecision(True, loss.why)


def _update_unready_at_once(observed: Observed) -> Action | None:
    for pod in observed.active:
        if pod.revision != observed.update_revision and not pod.ready:
            return Action(act=Act.UPDATE, reason="Superseded", message="it is not ready", pod=pod)
    return None


def _checks(change: Callable[[list[plan.Check]], list[plan.Check]]) -> Any:
    return patch.object(plan, "CHECKS", tuple(change(list(plan.CHECKS))))


def _wait_before_creating(checks: list[plan.Check]) -> list[plan.Check]:
    checks.remove(plan.wait_for_unhealthy)
    checks.insert(checks.index(plan.update_outdated), plan.wait_for_unhealthy)
    return checks


def _find_released_as_now(cluster: Any, mine: Any, now: float) -> dict[str, float]:
    free = {line.group for line in cluster.status.claims if line.state is ClaimState.FREE}
    found = _find_released(cluster, mine, now)
    return {group: at if group in free else now for group, at in found.items()}


def _wait_for_the_refused(observed: Observed, skipped: list[str]) -> Action:
    action = _next(observed, [])
    for check in plan.CHECKS:
        first = check(observed)
        if first is not None and (again := observed.postponed.get(first.concern, 0.0)) > observed.now:
            return Action(
                act=Act.WAIT, reason="Refused", message="it was refused", after=again - observed.now
            )
        if first is not None:
            return first
    return action


async def _remove_without_look(self: ReplicaWriter, pod: Pod, *, voluntary: bool) -> bool:
    if voluntary:
        await self._client.evict(pod.key, uid=pod.uid)
    else:
        await self._client.delete(PODS, pod.key, uid=pod.uid)
    return True


RARE = (
    "an abandoned pod keeps missing ones from being created",
    "a pod is deleted as unready without a look",
    "all unhealthy pods are deleted without waiting for the first",
)
"""Bugs that take more than a few sequences to find."""


_find_released, _next = ledger.find_released, plan._next

BUGS: dict[str, Callable[[], list[Any]]] = {
    "volumes on nodes that do not exist are given up at once": lambda: [
        patch.object(dataloss, "decide", _give_up_at_once)
    ],
    "an unready pod of an older template is deleted at once": lambda: [
        _checks(
            lambda all_: [
                _update_unready_at_once if each is plan.replace_superseded else each for each in all_
            ]
        )
    ],
    "an abandoned pod keeps missing ones from being created": lambda: [
        _checks(_wait_before_creating),
        patch.object(health, "is_abandoned", lambda _, setback: setback.count >= 5),
    ],
    "the time of release is forgotten while a claim is resized": lambda: [
        patch.object(ledger, "find_released", _find_released_as_now)
    ],
    "a refused action stops the others": lambda: [patch.object(plan, "_next", _wait_for_the_refused)],
    "claims without labels, or mounted by others, are forgotten": lambda: [
        _checks(lambda all_: [each for each in all_ if each is not plan.restore_labels]),
        patch.object(controller, "missing_claims", lambda *_: []),
        patch.object(claims, "groups_held_by_others", lambda *_: []),
    ],
    "a pod is deleted as unready without a look": lambda: [
        patch.object(ReplicaWriter, "remove_pod", _remove_without_look)
    ],
    "all unhealthy pods are deleted without waiting for the first": lambda: [
        patch.object(progress, "may_remove_unhealthy", lambda *_: True)
    ],
}


@contextlib.contextmanager
def put_back(bug: str) -> Iterator[None]:
    """Put a bug back into the controller."""
    with contextlib.ExitStack() as stack:
        for change in BUGS[bug]():
            stack.enter_context(change)
        yield
