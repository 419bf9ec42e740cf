"""Status of a StatefulCluster, from the observed state and the next action."""

from dataclasses import dataclass
from typing import Final

from quintet.apis.labels import Selector, as_query
from quintet.apis.meta import Condition
from quintet.apis.statefulcluster import MOST_LISTED, PlannedAction, StatefulCluster, StatefulClusterStatus
from quintet.apis.statefulcluster import ConditionType as Type
from quintet.apis.text import truncate
from quintet.controllers.statefulcluster.decide import health, plan, volumes
from quintet.controllers.statefulcluster.decide.actions import Act, Action, Records
from quintet.controllers.statefulcluster.decide.ledger import ledger
from quintet.controllers.statefulcluster.decide.observed import Observed

IGNORE: Final = "IgnorePod"
"""Action in `status.plan` for pods that match the selector but belong to another owner."""
_MOST_PLANNED: Final = 16
_LONGEST: Final = 1024


@dataclass(frozen=True, slots=True)
class ActionFailure:
    """Why the last action failed."""

    reason: str
    message: str
    blocked: bool = False
    """Whether progress needs a user's intervention."""


@dataclass(frozen=True, slots=True)
class Notes:
    """Facts for the status that are not part of the observed state."""

    collisions: int = 0
    failure: ActionFailure | None = None


def status_of(
    cluster: StatefulCluster, observed: Observed, action: Action, records: Records, notes: Notes
) -> StatefulClusterStatus:
    """Return the status, without the transition times of its conditions."""
    active, desired = observed.active, observed.spec.replicas
    updated = [pod for pod in active if pod.revision == observed.update_revision]
    ready = [pod for pod in active if pod.ready]
    settled = len(updated) == len(ready) == len(active) == desired
    current = observed.update_revision if settled else _current_revision(cluster, observed)
    names = [*dict.fromkeys((*observed.names(), *(draw.replica for draw in records.draws)))]
    claims = ledger(cluster, observed, records)
    return StatefulClusterStatus(
        observed_generation=cluster.metadata.generation,
        replicas=len(active),
        ready_replicas=len(ready),
        available_replicas=len(observed.available),
        current_replicas=sum(pod.revision == current for pod in active),
        updated_replicas=len(updated),
        terminating_replicas=len(observed.leaving),
        current_revision=current,
        update_revision=observed.update_revision,
        collision_count=notes.collisions,
        ready=f"{len(ready)}/{desired}",
        selector=selector_text(cluster.spec.selector),
        replica_names=tuple(names[:MOST_LISTED]),
        claims=claims[:MOST_LISTED],
        claims_not_listed=max(0, len(claims) - MOST_LISTED),
        plan=plan_entries(observed, action),
        draws=records.draws,
        retiring=records.retiring,
        setbacks=records.setbacks,
        conditions=_conditions(cluster, observed, action, notes.failure),
    )


def _current_revision(cluster: StatefulCluster, observed: Observed) -> str:
    """Return the revision that a partition keeps; none before the first pod was ready with it.

    Otherwise a first template that never worked could not be corrected.
    """
    proven = any(pod.has_been_ready for pod in observed.active if pod.revision == observed.current_revision)
    return observed.current_revision if cluster.status.current_revision or proven else ""


def plan_entries(observed: Observed, action: Action) -> tuple[PlannedAction, ...]:
    """Return the next action, and the foreign pods that are ignored."""
    first = PlannedAction(action.act, action.target, action.reason, truncate(action.message, _LONGEST))
    ignored = [
        PlannedAction(IGNORE, pod.name, "ForeignPod", foreign_text(pod.name))
        for pod in observed.foreign[: _MOST_PLANNED - 1]
    ]
    return (first, *ignored)


def foreign_text(pod: str) -> str:
    """Return the message about a foreign pod that matches the selector."""
    return (
        f"pod {pod} matches spec.selector but does not belong to this object: it is neither counted nor "
        "removed; change its labels"
    )


def selector_text(selector: Selector) -> str:
    """Return a selector as a query string, as autoscalers read it."""
    parts = [f"{key}={value}" for key, value in selector.match_labels.items()]
    return ",".join((*parts, *filter(None, map(as_query, selector.match_expressions))))


def _conditions(
    cluster: StatefulCluster, observed: Observed, action: Action, failure: ActionFailure | None
) -> tuple[Condition, ...]:
    return (
        _ready_condition(observed),
        _paused_condition(action) if cluster.plan_only else _progressing_condition(observed, action, failure),
        _degraded_condition(observed, failure),
        _blocked_condition(action, failure),
    )


def _ready_condition(observed: Observed) -> Condition:
    desired, available = observed.spec.replicas, len(observed.available)
    exact = len(observed.active) == desired and not observed.open_draws
    outdated = 0 if observed.spec.on_delete else len(plan.outdated_pods(observed))
    if exact and available == desired and not outdated:
        if desired == 0:
            return Condition(Type.READY, "True", "ScaledToZero", "scaled to zero: there are no replicas")
        text = f"{available} of {desired} replicas are available"
        return Condition(Type.READY, "True", "AllReplicasAvailable", text)
    text = f"{available} of {desired} replicas are available"
    if outdated:
        text += f", {outdated} of an older template"
        return Condition(Type.READY, "False", "RollingOut", text)
    surplus = len(observed.active) - desired
    reason = "TooMany" if surplus > 0 else "NotAvailable"
    return Condition(Type.READY, "False", reason, text)


def _paused_condition(action: Action) -> Condition:
    text = f"the annotation enge.me/plan-only is set, so nothing is changed; next action: {action.message}"
    return Condition(Type.PROGRESSING, "False", "PlanOnly", truncate(text, _LONGEST))


def _progressing_condition(observed: Observed, action: Action, failure: ActionFailure | None) -> Condition:
    if failure is not None:
        return Condition(Type.PROGRESSING, "False", failure.reason, truncate(failure.message, _LONGEST))
    if action.act is Act.NOTHING:
        return Condition(Type.PROGRESSING, "False", action.reason, action.message)
    stuck = action.blocked or health.abandoned_message(observed)
    return Condition(
        Type.PROGRESSING, "False" if stuck else "True", action.reason, truncate(action.message, _LONGEST)
    )


def _degraded_condition(observed: Observed, failure: ActionFailure | None) -> Condition:
    if text := health.abandoned_message(observed):
        return Condition(Type.DEGRADED, "True", "GaveUp", truncate(text, _LONGEST))
    if failure is not None and not failure.blocked:
        return Condition(Type.DEGRADED, "True", failure.reason, truncate(failure.message, _LONGEST))
    if (condition := _data_condition(observed)) is not None:
        return condition
    return Condition(Type.DEGRADED, "False", "AsExpected", "no replica has been given up")


def _data_condition(observed: Observed) -> Condition | None:
    """Return the condition Degraded while claims are set aside or cannot be reached."""
    for pod in volumes.pending_pods(observed):
        if (waiting := volumes.wait_for_volumes(observed, pod)) is not None:
            reason, text = waiting.reason, waiting.message
            if reason in (volumes.CONSENT, volumes.UNREACHABLE):
                return Condition(Type.DEGRADED, "True", reason, truncate(text, _LONGEST))
    aside = sorted({claim.name for claim in observed.claims if claim.unusable and not claim.deleting})
    if not aside:
        return None
    text = (
        f"claims {', '.join(aside)} are set aside and no replica uses their data; status.claims has the "
        "causes: delete them if the data is not needed"
    )
    return Condition(Type.DEGRADED, "True", "DataSetAside", truncate(text, _LONGEST))


def _blocked_condition(action: Action, failure: ActionFailure | None) -> Condition:
    if failure is not None and failure.blocked:
        return Condition(Type.BLOCKED, "True", failure.reason, truncate(failure.message, _LONGEST))
    if action.blocked:
        return Condition(Type.BLOCKED, "True", action.reason, truncate(action.message, _LONGEST))
    return Condition(Type.BLOCKED, "False", "NotBlocked", "nothing is blocked")
