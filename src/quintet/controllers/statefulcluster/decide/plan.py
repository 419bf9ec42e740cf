"""The reconcile strategy: from the observed state to the next action.

`CHECKS` is the strategy, in order: the first check that returns an action wins. One pod changes per pass.
With podManagementPolicy Parallel replicas do not wait for each other, and with maxUnavailable above 1 neither
do updates.
"""

import dataclasses
from collections.abc import Callable
from typing import Final

from quintet.controllers.statefulcluster.decide import claims, health, progress, volumes
from quintet.controllers.statefulcluster.decide.actions import Act, Action
from quintet.controllers.statefulcluster.decide.observed import PENDING, Observed, Pod

POLL: Final = 5.0
"""Seconds between two reconciliations while a pod is pending."""
NEWSWORTHY: Final = 10.0
"""Seconds after which the status says why a pod is pending."""
REFUSED_FOR: Final = 300.0
"""Seconds until a refused claim expansion is retried."""

Check = Callable[[Observed], Action | None]


def plan(observed: Observed) -> Action:
    """Return the next action, which may be to wait or to do nothing.

    An action that was refused recently steps aside for the others: one of them may be what it needs.
    """
    skipped = list[str]()
    action = _next(observed, skipped)
    if action.act not in (Act.WAIT, Act.NOTHING):
        return dataclasses.replace(action, skipped=tuple(skipped))
    if skipped and action.act is Act.NOTHING:
        text = "an action was refused and is tried again: see the conditions"
        action = Action(act=Act.WAIT, reason="Refused", message=text, after=action.after)
    times = [claims.next_expansion_at(observed), claims.next_deletion_at(observed)]
    times.append(volumes.next_look_at(observed))
    times += [observed.postponed[concern] for concern in skipped]
    due = progress.seconds_until(observed, min((each for each in times if each is not None), default=None))
    if due is not None:
        action = dataclasses.replace(action, after=due if action.after is None else min(due, action.after))
    return dataclasses.replace(action, skipped=tuple(skipped))


def _next(observed: Observed, skipped: list[str]) -> Action:
    for check in CHECKS:
        action = check(observed)
        if action is None:
            continue
        if observed.postponed.get(action.concern, observed.now) <= observed.now:
            return action
        skipped.append(action.concern)
    return Action(
        act=Act.NOTHING,
        reason="AsWanted",
        message=f"all {observed.spec.replicas} replicas are up to date",
        after=progress.seconds_until(observed, health.expire_at(observed)),
    )


def adopt_orphan(observed: Observed) -> Action | None:
    """Adopt a pod of this cluster that has no controller."""
    for pod in observed.orphans:
        message = f"pod {pod.name} belongs to this cluster and has no controller"
        return Action(act=Act.ADOPT, reason="Orphaned", message=message, pod=pod)
    return None


def restore_labels(observed: Observed) -> Action | None:
    """Restore the labels of a claim that lost them: its data would be forgotten."""
    for claim in observed.unlabelled:
        message = f"claim {claim.name} of this cluster has lost its labels"
        return Action(act=Act.RELABEL, reason="LabelsLost", message=message, claim=claim)
    return None


def set_claim_owner(observed: Observed) -> Action | None:
    """Own claims if they are to be deleted with the cluster, and only then."""
    for claim in observed.claims:
        owned = observed.uid in claim.owners
        if claim.deleting or owned is observed.spec.delete_with_cluster:
            continue
        policy = "Delete" if observed.spec.delete_with_cluster else "Retain"
        text = f"claim {claim.name}: whenDeleted is {policy}"
        act = Act.DISOWN_CLAIM if owned else Act.OWN_CLAIM
        return Action(act=act, reason="RetentionPolicy", message=text, claim=claim)
    return None


def expand_claim(observed: Observed) -> Action | None:
    """Expand a claim whose template grew, if its StorageClass allows that."""
    for claim in claims.claims_to_expand(observed):
        size = observed.spec.sizes[claim.template]
        text = f"claim {claim.name} requests {claim.requested}, its template {size}"
        return Action(act=Act.EXPAND_CLAIM, reason="TemplateGrew", message=text, claim=claim)
    return None


def delete_retired_claim(observed: Observed) -> Action | None:
    """Delete claims of removed replicas if the retention policy says so and no missing replica needs them."""
    if progress.count_replicas(observed) < observed.spec.replicas:
        return None
    for claim in claims.retired_claims(observed):
        if observed.now < claims.deletion_time(observed, claim.group):
            continue
        message = f"claim {claim.name}: its replica was removed, and whenScaled is Delete"
        return Action(act=Act.DELETE_CLAIM, reason="ScaledDown", message=message, claim=claim)
    return None


def scale_down(observed: Observed) -> Action | None:
    """Remove a surplus replica; one without a pod goes first."""
    surplus = progress.count_replicas(observed) - observed.spec.replicas
    if surplus <= 0:
        return None
    retires = observed.spec.delete_when_scaled
    text = f"{progress.count_replicas(observed)} replicas, {observed.spec.replicas} desired"
    if observed.open_draws:
        draw = observed.open_draws[-1]
        return Action(act=Act.FORGET, reason="TooMany", message=text, draw=draw, retires=retires)
    if progress.waits_for_leaving(observed):
        return None
    pod = min(observed.active, key=_removal_order)
    return Action(act=Act.REMOVE, reason="TooMany", message=text, pod=pod, voluntary=True, retires=retires)


def repair_claims(observed: Observed) -> Action | None:
    """Repair the claims of a pod that cannot start because of them, or remove the pod to give it others."""
    if progress.waits_for_leaving(observed):
        return None
    for pod in volumes.pending_pods(observed):
        group = claims.group_of(observed, pod.group)
        if group.deleting:
            text = f"pod {pod.name} waits for claim {group.deleting}, which is being deleted"
            return Action(act=Act.REMOVE, reason="ClaimTerminating", message=text, pod=pod)
        if group.unusable:
            text = f"pod {pod.name} cannot start with its claims: {group.unusable}"
            return Action(act=Act.REMOVE, reason="ClaimsUnusable", message=text, pod=pod)
        if pod.group and (missing := group.missing(observed.spec.templates)):
            text = f"pod {pod.name} waits for missing claims: {', '.join(missing)}"
            return Action(
                act=Act.REPAIR_CLAIMS, reason="ClaimMissing", message=text, pod=pod, group=pod.group
            )
    return None


def replace_superseded(observed: Observed) -> Action | None:
    """Update a pod that an older template keeps from working: a corrected template repairs the cluster.

    A pod that was ready before may become ready again without help, so it has its grace period.
    """
    if observed.spec.on_delete or progress.waits_for_leaving(observed):
        return None
    for pod in reversed(outdated_pods(observed)):
        if not pod.has_been_ready:
            text = f"pod {pod.name} has an older template and never became ready"
            return Action(act=Act.UPDATE, reason="Superseded", message=text, pod=pod)
        if (why := health.unhealthy_reason(observed, pod)) and progress.may_remove_unhealthy(observed, pod):
            text = f"pod {pod.name} has an older template and is unhealthy: {why}"
            return Action(act=Act.UPDATE, reason="Superseded", message=text, pod=pod)
    return None


def replace_unhealthy(observed: Observed) -> Action | None:
    """Replace an unhealthy pod, with growing delays, until the limit is reached."""
    if progress.waits_for_leaving(observed):
        return None
    for pod in observed.active:
        why, setback = health.unhealthy_reason(observed, pod), observed.setback(pod.revision)
        if not why or not progress.may_remove_unhealthy(observed, pod):
            continue
        if not health.is_abandoned(observed, setback) and observed.now >= health.may_remove_at(
            observed, setback
        ):
            text = f"pod {pod.name} is unhealthy: {why}"
            return Action(act=Act.REPLACE, reason="Unhealthy", message=text, pod=pod, counts=True)
    return None


def update_outdated(observed: Observed) -> Action | None:
    """Update a ready pod of an older template, newest first, as far as maxUnavailable allows."""
    spec = observed.spec
    if spec.on_delete:
        return None
    unavailable = max(0, spec.replicas - len(observed.available))
    candidates = outdated_pods(observed)
    if not candidates:
        return None
    pod = candidates[-1]
    # A pod that is ready but not yet available already counts as unavailable.
    cost = 1 if observed.is_available(pod) else 0
    if unavailable + cost > spec.max_unavailable:
        return None
    text = f"pod {pod.name} has revision {pod.revision}, the spec has {observed.update_revision}"
    return Action(act=Act.UPDATE, reason="Outdated", message=text, pod=pod, voluntary=True)


def create_drawn(observed: Observed) -> Action | None:
    """Create the pod of a replica that is recorded in the status."""
    if not observed.spec.parallel and not progress.has_room_to_create(observed):
        return None
    held = {pod.name for pod in observed.leaving} | {pod.group for pod in observed.leaving if pod.group}
    for draw in observed.open_draws:
        if draw.replica in held or draw.group in held:
            continue
        group = claims.group_of(observed, draw.group)
        if group.deleting or group.unusable:
            why = group.unusable or f"{group.deleting} is being deleted"
            return Action(
                act=Act.REGROUP,
                reason="ClaimsUnusable",
                message=f"replica {draw.replica} gets new claims: {why}",
                draw=draw,
                group=claims.group_to_adopt(observed),
            )
        text = f"replica {draw.replica} has no pod yet"
        return Action(act=Act.MAKE, reason="NoPod", message=text, draw=draw, group=draw.group)
    return None


def wait_for_leaving(observed: Observed) -> Action | None:
    """Wait for a terminating pod, which still holds its name and claims."""
    awaited = progress.awaited_leaving(observed)
    if not awaited or progress.may_create_now(observed):
        return None
    return _until_gone(observed, min(awaited, key=lambda pod: (pod.leaves_by or 0.0, pod.name)))


def wait_for_stuck(observed: Observed) -> Action | None:
    """Report a pod without claims that does not end. Nothing else waits for it."""
    stuck = (pod for pod in observed.leaving if progress.is_stuck(observed, pod))
    return next((_until_gone(observed, pod) for pod in stuck), None)


def _until_gone(observed: Observed, pod: Pod) -> Action:
    overdue = (observed.now if pod.leaves_by is None else pod.leaves_by) + progress.OVERDUE
    if observed.now < overdue:
        text = f"pod {pod.name} is being deleted"
        return Action(
            act=Act.WAIT,
            reason="Leaving",
            message=text,
            pod=pod,
            after=progress.seconds_until(observed, overdue),
        )
    text = (
        f"pod {pod.name} did not terminate in time: its node may be lost. If you are sure that it no longer "
        f"runs: kubectl delete pod {pod.name} -n {pod.key.namespace} --force --grace-period=0"
    )
    return Action(act=Act.WAIT, reason="PodStuck", message=text, pod=pod, blocked=True)


def wait_for_pending(observed: Observed) -> Action | None:
    """Wait for a pending pod; after a while check its volumes."""
    if progress.may_create_now(observed):
        return None
    for pod in volumes.pending_pods(observed):
        if (waiting := volumes.wait_for_volumes(observed, pod)) is not None:
            return waiting
        # The reason changes often in the first seconds and is not worth reporting then.
        old_enough = observed.now >= pod.created + NEWSWORTHY
        why = f": {pod.why_pending}" if pod.why_pending and old_enough else ""
        stuck = bool(pod.why_pending) and observed.now >= pod.created + volumes.UNSCHEDULED_FOR
        if stuck:
            why += f"; correct spec.template if it is wrong, or {volumes.describe_pod(pod)}"
        return Action(
            act=Act.WAIT, reason="PodPending", message=f"pod {pod.name} is pending{why}", pod=pod,
            after=POLL, blocked=stuck,
        )  # fmt: skip
    return None


def wait_for_starting(observed: Observed) -> Action | None:
    """Wait for a running pod to become available."""
    if progress.may_create_now(observed):
        return None
    for pod in observed.active:
        if pod.ready and not observed.is_available(pod):
            text = f"pod {pod.name} has not been ready for minReadySeconds yet"
            due = pod.ready_since + observed.spec.min_ready
        elif pod.phase != PENDING and pod in progress.starting_pods(observed):
            text, due = f"pod {pod.name} is not ready yet", health.unhealthy_at(observed, pod)
        else:
            continue
        return Action(
            act=Act.WAIT,
            reason="NotAvailable",
            message=text,
            pod=pod,
            after=progress.seconds_until(observed, due),
        )
    return None


def _wait_for_user_of(observed: Observed, group: str) -> Action:
    text = f"claims {group} have data, and pod {observed.held[group]}, which is not a replica, mounts them"
    step = "wait until that pod ends, or delete it"
    return Action(
        act=Act.WAIT, reason="ClaimsMounted", message=f"{text}: {step}", group=group, after=POLL, blocked=True
    )


def wait_for_unhealthy(observed: Observed) -> Action | None:
    """Wait for an unhealthy pod that is replaced later, or never. Missing replicas are created before."""
    waiting = None
    for pod in observed.active:
        if not (why := health.unhealthy_reason(observed, pod)):
            continue
        setback = observed.setback(pod.revision)
        text = f"pod {pod.name} is unhealthy: {why}"
        if health.is_abandoned(observed, setback):
            text = health.abandoned_text(text, setback)
            waiting = Action(act=Act.WAIT, reason="GaveUp", message=text, pod=pod)
            continue
        due = health.may_remove_at(observed, setback)
        text += f"; its replacement is delayed, because {setback.count} were replaced before"
        return Action(
            act=Act.WAIT, reason="BackOff", message=text, pod=pod, after=progress.seconds_until(observed, due)
        )
    return waiting


def scale_up(observed: Observed) -> Action | None:
    """Create a missing replica, but wait for terminating pods first: the new replica adopts their claims."""
    count, leaving = progress.count_replicas(observed), progress.count_replaceable_leaving(observed)
    missing = observed.spec.replicas - count - leaving
    if missing <= 0:
        return None
    text = f"{progress.count_replicas(observed)} replicas, {observed.spec.replicas} desired"
    group = claims.group_to_adopt(observed)
    if not group and observed.before and observed.spec.adopts_claims:
        return _until_gone(observed, observed.before[0])
    held = claims.groups_held_by_others(observed, group)
    if len(held) >= missing:
        return _wait_for_user_of(observed, held[0])
    if group:
        text += f"; it adopts the free claims {group}"
    return Action(act=Act.CREATE, reason="TooFew", message=text, group=group)


CHECKS: Final[tuple[Check, ...]] = (
    adopt_orphan,
    restore_labels,
    set_claim_owner,
    expand_claim,
    delete_retired_claim,
    scale_down,
    volumes.use_claims_again,
    repair_claims,
    volumes.give_up_claims,
    volumes.return_to_data,
    replace_superseded,
    replace_unhealthy,
    update_outdated,
    create_drawn,
    wait_for_leaving,
    wait_for_pending,
    wait_for_starting,
    scale_up,
    wait_for_unhealthy,
    wait_for_stuck,
)


def outdated_pods(observed: Observed) -> list[Pod]:
    """Return the pods to update, oldest first; the partition keeps as many of the current revision."""
    spec, current = observed.spec, observed.current_revision
    kept = [pod for pod in observed.active if pod.revision == current][: spec.partition]
    return [
        pod
        for pod in observed.active
        if pod.revision != observed.update_revision and (spec.on_delete or pod not in kept)
    ]


def revision_for(observed: Observed, replica: str) -> str:
    """Return the revision of a new pod; the partition keeps its share at the current one."""
    spec, current = observed.spec, observed.current_revision
    keeping = sum(pod.revision == current and pod.name != replica for pod in observed.active)
    partitioned = not spec.on_delete and current != observed.update_revision
    return current if partitioned and keeping < spec.partition else observed.update_revision


def _removal_order(pod: Pod) -> tuple[bool, int, float, str]:
    return pod.ready, pod.cost, -pod.created, pod.name
