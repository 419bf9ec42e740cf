"""Kubernetes Events for the actions of a StatefulCluster."""

from quintet.controllers.statefulcluster.decide.actions import Act, Action

NORMAL, WARNING = "Normal", "Warning"

_REASONS = {
    Act.ADOPT: (NORMAL, "PodAdopted"),
    Act.EXPAND_CLAIM: (NORMAL, "ClaimExpanding"),
    Act.DELETE_CLAIM: (NORMAL, "ClaimDeleted"),
    Act.REPAIR_CLAIMS: (WARNING, "ClaimsRepaired"),
    Act.SET_ASIDE: (WARNING, "ClaimsSetAside"),
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
