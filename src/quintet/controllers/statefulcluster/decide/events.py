"""Which actions are news for whoever reads `kubectl describe`, and in which words. Pure."""

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
    """The type, reason and note of an Event, if the action deserves one."""
    if action.act not in _REASONS:
        return None
    kind, reason = _REASONS[action.act]
    return kind, reason, action.message
