"""Claim entries of the status: every claim, its state, and its next step."""

from quintet.apis.statefulcluster import Claim as Line
from quintet.apis.statefulcluster import ClaimState, StatefulCluster
from quintet.apis.text import truncate
from quintet.controllers.statefulcluster.decide import claims
from quintet.controllers.statefulcluster.decide.actions import Records
from quintet.controllers.statefulcluster.decide.observed import LOST, Claim, Observed, format_time

_LONGEST_STEP = 512


def ledger(cluster: StatefulCluster, observed: Observed, records: Records) -> tuple[Line, ...]:
    """Return one entry per claim; those in use come first."""
    used = claims.group_users(observed) | {draw.group: draw.replica for draw in records.draws if draw.group}
    before = {line.name: line for line in cluster.status.claims}
    lines = []
    for claim in observed.claims:
        known = before.get(claim.name)
        user = used.get(claim.group, "")
        state = _state(claim, user)
        lines.append(
            Line(
                name=claim.name,
                state=state,
                template=claim.template,
                group=claim.group,
                replica=user or (known.replica if known is not None else ""),
                since=known.since
                if known is not None and known.state is state
                else format_time(observed.now),
                next_step=truncate(_next_step(observed, records, claim, state), _LONGEST_STEP),
            )
        )
    return tuple(sorted(lines, key=lambda line: (line.state is not ClaimState.IN_USE, line.name)))


def _state(claim: Claim, user: str) -> ClaimState:
    if claim.deleting:
        return ClaimState.TERMINATING
    if claim.unusable or claim.phase == LOST:
        return ClaimState.UNUSABLE
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
            why = claim.unusable or "its volume is lost"
            return (
                f"set aside: {why}. Delete it if its data is not needed, or remove the annotation "
                "enge.me/unusable to use it again"
            )
        case ClaimState.RESIZING:
            return f"its volume grows from {claim.capacity or 'nothing'} to {claim.requested}"
        case ClaimState.IN_USE:
            if claims.parse_size(sizes.get(claim.template, "")) <= claims.parse_size(claim.requested):
                return "in use by its replica"
            if claim.name in refused:
                return f"cannot grow to {sizes[claim.template]}: {refused[claim.name].message}"
            return f"grows to {sizes[claim.template]}"
    if claim.group in records.retiring:
        return "deleted next, because whenScaled is Delete"
    if not observed.spec.adopts_claims:
        return "kept and not reused, because enge.me/claim-adoption is Never; delete it if it is not needed"
    return "adopted by the next replica"
