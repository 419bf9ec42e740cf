"""Replicas that wait for their volumes: whose volumes to look at, and what follows from the look."""

from dataclasses import dataclass
from typing import Final

from quintet.apis.statefulcluster import ClaimContent
from quintet.controllers.statefulcluster.decide import claims, dataloss
from quintet.controllers.statefulcluster.decide.actions import Act, Action
from quintet.controllers.statefulcluster.decide.claims import ClaimGroup
from quintet.controllers.statefulcluster.decide.observed import PENDING, Observed, Pod
from quintet.controllers.statefulcluster.decide.progress import seconds_until, waits_for_leaving

UNSCHEDULED_FOR: Final = 60.0
"""Seconds without a node after which the volumes of a pod are looked at."""
UNBOUND_FOR: Final = 300.0
"""Seconds without a volume after which the storage class of a claim is looked at."""
LOOK_EVERY: Final = 30.0
"""Seconds between two looks at the same volumes."""
UNBOUND: Final = "ClaimUnbound"
UNREACHABLE: Final = "DataUnreachable"
CONSENT: Final = "DataLossConsent"


@dataclass(frozen=True, slots=True)
class LookRequest:
    """A claim group whose volumes the controller looks at."""

    group: ClaimGroup
    expects_volumes: bool
    """Whether a claim without a volume is a problem: it had the time to be bound."""


def groups_to_look_at(observed: Observed) -> list[LookRequest]:
    """Return the groups of pods that wait for long, and those set aside that can be used again."""
    groups = claims.groups_by_name(observed.claims)
    found = {
        group.name: LookRequest(group, expects_volumes=True)
        for group in groups.values()
        if _is_set_aside_by_controller(group)
    }
    for pod in pending_pods(observed):
        group = groups.get(pod.group)
        if group is None or group.unusable:
            continue
        unbound = bool(group.unbound) and observed.now >= pod.created + UNBOUND_FOR
        if unbound or (pod.unscheduled and observed.now >= pod.created + UNSCHEDULED_FOR):
            found[group.name] = LookRequest(group, unbound)
    return list(found.values())


def looks_due(observed: Observed) -> list[LookRequest]:
    """Return the groups that were not looked at recently."""
    return [
        request
        for request in groups_to_look_at(observed)
        if (look := observed.looks.get(request.group.name)) is None or observed.now >= look.at + LOOK_EVERY
    ]


def next_look_at(observed: Observed) -> float | None:
    """Return when to look at volumes again: no event reports that a node or volume is back."""
    looks = [observed.looks.get(request.group.name) for request in groups_to_look_at(observed)]
    return min((look.at + LOOK_EVERY for look in looks if look is not None), default=None)


def use_claims_again(observed: Observed) -> Action | None:
    """Use claims again that were set aside and whose volumes can be reached."""
    for group in claims.groups_by_name(observed.claims).values():
        look = observed.looks.get(group.name)
        if look is not None and not look.why and _is_set_aside_by_controller(group) and not group.lost:
            text = f"the volumes of claims {group.name} can be reached again"
            return Action(act=Act.USE_AGAIN, reason="ClaimsReachable", message=text, group=group.name)
    return None


def give_up_claims(observed: Observed) -> Action | None:
    """Set the claims of a pending pod aside if its volumes are lost and the policy allows it."""
    for pod in pending_pods(observed):
        group = claims.group_of(observed, pod.group)
        loss = dataloss.find_loss(observed, group)
        if loss is None or group.unusable or group.deleting or _found_no_volume_before(observed, group):
            continue
        decision = dataloss.decide(observed, pod, group, loss)
        if decision.gives_up:
            reason = "ClaimLost" if group.lost else UNBOUND if group.unbound else "VolumeLost"
            return Action(
                act=Act.SET_ASIDE, reason=reason, message=decision.message, pod=pod, group=group.name
            )
    return None


def return_to_data(observed: Observed) -> Action | None:
    """Remove a pod that never became ready with its empty claims while claims with data are free."""
    if waits_for_leaving(observed) or not observed.spec.adopts_claims:
        return None
    free = [
        group.name
        for group in claims.free_groups(observed)
        if observed.content(group.name) is ClaimContent.DATA
    ]
    for pod in observed.active:
        if free and observed.content(pod.group) is ClaimContent.EMPTY and not pod.has_been_ready:
            text = f"pod {pod.name} has empty claims, and claims {free[0]}, which have data, are free"
            return Action(act=Act.REMOVE, reason="DataReturned", message=text, pod=pod)
    return None


def wait_for_volumes(observed: Observed, pod: Pod) -> Action | None:
    """Return why a pending pod waits for its volumes; None if it does not wait for them for long."""
    group = claims.group_of(observed, pod.group)
    if not group.claims:
        return None
    loss = dataloss.find_loss(observed, group)
    if loss is not None and not _found_no_volume_before(observed, group):
        decision = dataloss.decide(observed, pod, group, loss)
        return Action(
            act=Act.WAIT,
            reason=CONSENT if decision.needs_consent else UNREACHABLE,
            message=f"pod {pod.name} waits for its volumes: {decision.message}",
            pod=pod,
            after=_soon(observed, decision.due),
            blocked=True,
        )
    if group.unbound and observed.now >= pod.created + UNBOUND_FOR:
        text = f"claim {group.unbound} of pod {pod.name} has had no volume for {UNBOUND_FOR:.0f} s"
        step = describe_pod(pod)
        if loss is not None:
            claim = f"kubectl describe pvc {group.unbound} -n {pod.key.namespace}"
            step = f"other claims have none either: see {claim}"
        return Action(
            act=Act.WAIT, reason=UNBOUND, message=f"{text}; {step}", pod=pod, after=LOOK_EVERY, blocked=True
        )
    if pod.unscheduled and observed.now >= pod.created + UNSCHEDULED_FOR:
        text = f"pod {pod.name} cannot be scheduled: {pod.why_pending}; {describe_pod(pod)}"
        return Action(
            act=Act.WAIT, reason="Unschedulable", message=text, pod=pod, after=LOOK_EVERY, blocked=True
        )
    return None


def pending_pods(observed: Observed) -> list[Pod]:
    """Return the pods that have not started, oldest first."""
    return [pod for pod in observed.active if pod.phase == PENDING]


def describe_pod(pod: Pod) -> str:
    """Return where to look for the cause of a pod's problem."""
    return f"see kubectl describe pod {pod.name} -n {pod.key.namespace}"


def _found_no_volume_before(observed: Observed, group: ClaimGroup) -> bool:
    """Return whether a group has no volume, like one that was set aside: a third would get none either."""
    return bool(group.unbound) and any(
        other.unusable and other.unbound and other.name != group.name
        for other in claims.groups_by_name(observed.claims).values()
    )


def _is_set_aside_by_controller(group: ClaimGroup) -> bool:
    return any(claim.unusable and claim.until_reachable for claim in group.claims)


def _soon(observed: Observed, due: float | None) -> float:
    seconds = seconds_until(observed, due)
    return LOOK_EVERY if seconds is None else min(LOOK_EVERY, seconds)
