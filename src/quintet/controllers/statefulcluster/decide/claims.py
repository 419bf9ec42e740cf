"""Claim groups: the PersistentVolumeClaims of one replica, their users, and which a new replica can adopt.

A claim group outlives its replica. When a replica is removed, its group becomes free, and the next replica
adopts it, so that no data is lost and no volume leaks.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from quintet.apis.quantity import amount
from quintet.apis.statefulcluster import ClaimContent
from quintet.controllers.statefulcluster.decide.observed import BOUND, LOST, Claim, Observed

_ORDER = {ClaimContent.DATA: 0, ClaimContent.UNKNOWN: 1, ClaimContent.EMPTY: 2}


@dataclass(frozen=True, slots=True)
class ClaimGroup:
    """The claims of one current or former replica."""

    name: str
    claims: tuple[Claim, ...] = ()

    @property
    def created_at(self) -> float:
        """Creation time of the oldest claim."""
        return min((claim.created for claim in self.claims), default=0.0)

    @property
    def deleting(self) -> str:
        """Name of a claim that is being deleted, or an empty string."""
        return next((claim.name for claim in self.claims if claim.deleting), "")

    @property
    def unbound(self) -> str:
        """Name of a claim that is not bound yet, or an empty string."""
        return next((claim.name for claim in self.claims if claim.phase not in (BOUND, LOST)), "")

    @property
    def unusable(self) -> str:
        """Why the group is set aside, or an empty string."""
        return next((claim.unusable for claim in self.claims if claim.unusable), "")

    @property
    def lost(self) -> bool:
        """Whether the volume of a claim is lost."""
        return any(claim.phase == LOST for claim in self.claims)

    def missing(self, templates: Iterable[str]) -> tuple[str, ...]:
        """Return the names of the claim templates for which the group has no claim."""
        there = {claim.template for claim in self.claims}
        return tuple(name for name in templates if name not in there)


def groups_by_name(claims: Iterable[Claim]) -> dict[str, ClaimGroup]:
    """Return the claims by group."""
    found: dict[str, list[Claim]] = {}
    for claim in claims:
        found.setdefault(claim.group, []).append(claim)
    return {name: ClaimGroup(name, tuple(members)) for name, members in found.items()}


def group_of(observed: Observed, name: str) -> ClaimGroup:
    """Return one group; it is empty if it has no claims yet."""
    return ClaimGroup(name, tuple(claim for claim in observed.claims if claim.group == name))


def group_users(observed: Observed) -> dict[str, str]:
    """Return the replica that uses each group, including replicas that are recorded but not created yet.

    Every pod that mounts a claim of the group counts, even one of another owner: two pods on one volume are
    worse than a missing replica.
    """
    drawn = {draw.group: draw.replica for draw in observed.open_draws if draw.group}
    return {**observed.held, **drawn, **{pod.group: pod.name for pod in observed.pods if pod.group}}


def free_groups(observed: Observed) -> list[ClaimGroup]:
    """Return the groups that a new replica can adopt: those with data first, the last released first."""
    used = group_users(observed)
    found = [
        group
        for group in groups_by_name(observed.claims).values()
        if group.name and group.name not in used and not (group.deleting or group.unusable or group.lost)
    ]
    templates = observed.spec.templates
    return sorted(
        found,
        key=lambda group: (
            _ORDER[observed.content(group.name)],
            len(group.missing(templates)),
            -observed.freed.get(group.name, group.created_at),
            group.name,
        ),
    )


def groups_held_by_others(observed: Observed, than: str) -> list[str]:
    """Return the groups that only pods of others use, and whose content is better than that of a free group.

    `than` is the free group; without one, anything that may have data is better.
    """
    if not observed.spec.adopts_claims:
        return []
    own = {pod.group for pod in observed.pods} | {draw.group for draw in observed.open_draws}
    free = _ORDER[observed.content(than) if than else ClaimContent.EMPTY]
    return [
        group.name
        for group in groups_by_name(observed.claims).values()
        if group.name in observed.held
        and group.name not in own
        and _ORDER[observed.content(group.name)] < free
        and not (group.unusable or group.deleting)
    ]


def group_to_adopt(observed: Observed) -> str:
    """Return the group that a new replica adopts; empty if it gets a new one."""
    if not observed.spec.templates or not observed.spec.adopts_claims:
        return ""
    return next((group.name for group in free_groups(observed)), "")


def retired_claims(observed: Observed) -> list[Claim]:
    """Return the claims to delete now or later: their replica was scaled down and no pod uses them."""
    if not observed.spec.delete_when_scaled:
        return []
    used = group_users(observed)
    names = set(observed.retiring) - set(used)
    return [claim for claim in observed.claims if claim.group in names and not claim.deleting]


def deletion_time(observed: Observed, group: str) -> float:
    """Return when the claims of a replica that was scaled down may be deleted."""
    return observed.freed.get(group, observed.now) + observed.spec.keep_when_scaled


def next_deletion_at(observed: Observed) -> float | None:
    """Return when the next claims that are still kept are deleted."""
    times = [deletion_time(observed, claim.group) for claim in retired_claims(observed)]
    return min((due for due in times if due > observed.now), default=None)


def undersized_claims(observed: Observed) -> list[Claim]:
    """Return the claims whose storage request is smaller than that of their template."""
    sizes = {name: parse_size(text) for name, text in observed.spec.sizes.items()}
    return [
        claim
        for claim in observed.claims
        if parse_size(claim.requested) < sizes.get(claim.template, 0)
        and claim.phase == BOUND
        and not claim.deleting
    ]


def claims_to_expand(observed: Observed) -> list[Claim]:
    """Return the undersized claims, except those whose expansion was refused recently."""
    refused = observed.refused
    return [
        claim
        for claim in undersized_claims(observed)
        if claim.name not in refused or refused[claim.name].again <= observed.now
    ]


def next_expansion_at(observed: Observed) -> float | None:
    """Return when to retry a refused expansion: no event reports that it has become possible."""
    refused = observed.refused
    return min(
        (refused[claim.name].again for claim in undersized_claims(observed) if claim.name in refused),
        default=None,
    )


def parse_size(quantity: str) -> Decimal:
    """Return a quantity as a number, 0 if it is not valid."""
    return amount(quantity) or Decimal(0)
