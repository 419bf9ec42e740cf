"""Kubernetes Events for the actions of a StatefulCluster."""

from collections.abc import Iterable

from quintet.apis.meta import find_condition
from quintet.apis.statefulcluster import ConditionType, StatefulClusterStatus
from quintet.controllers.statefulcluster.decide.actions import Act, Action
from quintet.controllers.statefulcluster.decide.status import IGNORE

NORMAL, WARNING = "Normal", "Warning"

_REASONS = {
    Act.ADOPT: (NORMAL, "PodAdopted"),
    Act.RELABEL: (WARNING, "LabelsRestored"),
    Act.EXPAND_CLAIM: (NORMAL, "ClaimExpanding"),
    Act.DELETE_CLAIM: (NORMAL, "ClaimDeleted"),
    Act.REPAIR_CLAIMS: (WARNING, "ClaimsRepaired"),
    Act.SET_ASIDE: (WARNING, "ClaimsSetAside"),
    Act.USE_AGAIN: (NORMAL, "ClaimsUsedAgain"),
    Act.REMOVE: (NORMAL, "PodRemoved"),
    Act.REPLACE: (WARNING, "PodReplaced"),
    Act.UPDATE: (NORMAL, "PodUpdated"),
    Act.MAKE: (NORMAL, "PodMade"),
    Act.CREATE: (NORMAL, "ReplicaCreated"),
}


def event_for(action: Action) -> tuple[str, str, str] | None:
    """Return the type, reason and note of the Event for an action, or None if it gets no Event."""
    if action.act not in _REASONS:
        return None
    kind, reason = _REASONS[action.act]
    return kind, reason, action.message


def status_events(
    before: StatefulClusterStatus, after: StatefulClusterStatus
) -> Iterable[tuple[str, str, str]]:
    """Return the Events for the start and end of problems, and for pods that the controller ignores."""
    for kind in (ConditionType.DEGRADED, ConditionType.BLOCKED):
        old, new = find_condition(before.conditions, kind), find_condition(after.conditions, kind)
        was, is_now = old is not None and old.status == "True", new is not None and new.status == "True"
        if new is not None and is_now and (old is None or not was or old.reason != new.reason):
            yield WARNING, new.reason, new.message
        elif was and not is_now:
            yield NORMAL, f"{kind}Over", f"it is no longer {kind.lower()}"
    known = {planned.target for planned in before.plan if planned.action == IGNORE}
    for planned in after.plan:
        if planned.action == IGNORE and planned.target not in known:
            yield WARNING, planned.reason, planned.message
