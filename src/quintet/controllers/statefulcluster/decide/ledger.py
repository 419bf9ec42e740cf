"""Claim entries of the status: every claim, its state, and its next step."""

from collections.abc import Iterable

from quintet.apis.statefulcluster import Claim as Line
from quintet.apis.statefulcluster import ClaimContent, ClaimState, StatefulCluster
from quintet.apis.text import truncate
from quintet.controllers.statefulcluster.decide import claims, dataloss
from quintet.controllers.statefulcluster.decide.actions import Records
from quintet.controllers.statefulcluster.decide.observed import (
    Claim,
    Observed,
    Pod,
    format_time,
    parse_time,
)

_LONGEST_STEP = 512


def ledger(cluster: StatefulCluster, observed: Observed, records: Records) -> tuple[Line, ...]:
    """Return one entry per claim; those in use come first."""
    used = claims.group_users(observed) | {draw.group: draw.replica for draw in records.draws if draw.group}
    before = {line.name: line for line in cluster.status.claims}
    lost = _find_lost(observed)
    staying = {pod.group for pod in observed.active} | {draw.group for draw in records.draws}
    lines = []
    for claim in observed.claims:
        known = before.get(claim.name, Line(claim.name, ClaimState.FREE))
        user = used.get(claim.group, "")
        state = _state(claim, user, claim.group in lost)
        lines.append(
            Line(
                name=claim.name,
                state=state,
                template=claim.template,
                group=claim.group,
                replica=user or known.replica,
                since=known.since
                if known.since and known.state is state
                else format_time(lost.get(claim.group, observed.now)),
                released=""
                if claim.group in staying
                else format_time(observed.freed.get(claim.group, observed.now)),
                content=observed.content(claim.group),
                next_step=truncate(_next_step(observed, records, claim, state), _LONGEST_STEP),
            )
        )
    return tuple(sorted(lines, key=lambda line: (line.state is not ClaimState.IN_USE, line.name)))


def find_released(cluster: StatefulCluster, mine: Iterable[Claim], now: float) -> dict[str, float]:
    """Return when each group was released; one that the status shows in use was released just now."""
    lines = {line.name: line for line in cluster.status.claims}
    released = dict[str, float]()
    for claim in mine:
        line = lines.get(claim.name)
        if line is None:
            # What the status has no room for is not known to have been released long ago.
            at = now if claim.group in cluster.status.retiring else claim.created
        elif line.released:
            at = parse_time(line.released)
        else:
            at = parse_time(line.since) if line.state is ClaimState.FREE else now
        released[claim.group] = at
    return released


def find_lost_since(cluster: StatefulCluster) -> dict[str, float]:
    """Return since when the status has reported groups as unreachable."""
    lines = cluster.status.claims
    return {line.group: parse_time(line.since) for line in lines if line.state is ClaimState.UNREACHABLE}


def find_contents(
    cluster: StatefulCluster, pods: Iterable[Pod], mine: Iterable[Claim]
) -> dict[str, ClaimContent]:
    """Return what is known about the data of each group.

    Claims that the status does not list yet are new if they have the name of their replica; others may have
    data from before. A pod that is gone and was not seen to terminate may have become ready in between.
    """
    lines, pods = {line.name: line for line in cluster.status.claims}, tuple(pods)
    used = {pod.group for pod in pods if pod.has_been_ready}
    new = {draw.group for draw in cluster.status.draws if draw.replica.endswith(f"-{draw.group}")}
    new |= {pod.group for pod in pods if pod.name.endswith(f"-{pod.group}")}
    held = {draw.group for draw in cluster.status.draws} | {pod.group for pod in pods}
    found = dict[str, set[ClaimContent]]()
    for claim in mine:
        line = lines.get(claim.name)
        if line is None:
            content = ClaimContent.EMPTY if claim.group in new else ClaimContent.DATA
        elif line.content is ClaimContent.EMPTY and claim.volume and not line.released:
            content = ClaimContent.EMPTY if claim.group in held else ClaimContent.UNKNOWN
        else:
            content = line.content
        found.setdefault(claim.group, set()).add(ClaimContent.DATA if claim.group in used else content)
    return {group: next(each for each in ClaimContent if each in known) for group, known in found.items()}


def _find_lost(observed: Observed) -> dict[str, float]:
    """Return since when the groups that are in use cannot be reached.

    A group stays unreachable until a look shows the contrary: a new process has not looked yet.
    """
    groups = claims.groups_by_name(observed.claims)
    found = {name: dataloss.find_loss(observed, group) for name, group in groups.items() if not group.unbound}
    lost = {name: loss.since for name, loss in found.items() if loss is not None}
    waiting = {pod.group for pod in observed.active if pod.unscheduled}
    for name, since in observed.lost_since.items():
        if name in waiting and name not in observed.looks:
            lost.setdefault(name, since)
    return lost


def _state(claim: Claim, user: str, is_lost: bool) -> ClaimState:
    if claim.deleting:
        return ClaimState.TERMINATING
    if claim.unusable:
        return ClaimState.UNUSABLE
    if is_lost:
        return ClaimState.UNREACHABLE
    if is_resizing(claim):
        return ClaimState.RESIZING
    return ClaimState.IN_USE if user else ClaimState.FREE


def is_resizing(claim: Claim) -> bool:
    """Return whether the volume is still smaller than the claim requests."""
    grown = bool(claim.capacity) and claims.parse_size(claim.capacity) < claims.parse_size(claim.requested)
    return claim.resizing or grown


def _next_step(observed: Observed, records: Records, claim: Claim, state: ClaimState) -> str:
    sizes, refused = observed.spec.sizes, observed.refused
    match state:
        case ClaimState.TERMINATING:
            return "deleted as soon as no pod uses it"
        case ClaimState.UNUSABLE:
            again = "It is used again when its volume can be reached. " if claim.until_reachable else ""
            return (
                f"set aside: {claim.unusable}. {again}Delete it if its data is not needed, or remove the "
                "annotation enge.me/unusable to use it again"
            )
        case ClaimState.UNREACHABLE:
            return "its replica waits for its volume; see the condition Blocked"
        case ClaimState.RESIZING:
            return f"its volume grows from {claim.capacity or 'nothing'} to {claim.requested}"
        case ClaimState.IN_USE:
            if claims.parse_size(sizes.get(claim.template, "")) <= claims.parse_size(claim.requested):
                return "in use by its replica"
            if claim.name in refused:
                return f"cannot grow to {sizes[claim.template]}: {refused[claim.name].message}"
            return f"grows to {sizes[claim.template]}"
    if claim.group in records.retiring:
        due = claims.deletion_time(observed, claim.group)
        if due <= observed.now:
            return "deleted next, because whenScaled is Delete"
        undo = "scale up to use it again, or set whenScaled to Retain to keep it"
        return f"deleted at {format_time(due)}, because whenScaled is Delete; {undo}"
    if not observed.spec.adopts_claims:
        return "kept and not reused, because enge.me/claim-adoption is Never; delete it if it is not needed"
    return "adopted by the next replica"
