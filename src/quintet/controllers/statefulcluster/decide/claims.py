"""Claim groups: which claims belong together, who uses them, and which a new replica may take. Pure.

A replica is a name; a claim group is data. A group outlives its replicas: when one goes, its
group is free, and the next replica takes it, so that nothing is lost and no volume leaks.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from quintet.apis.quantity import amount
from quintet.controllers.statefulcluster.decide.observed import BOUND, LOST, Claim, Observed


@dataclass(frozen=True, slots=True)
class ClaimGroup:
    """The claims of one replica, past or present."""

    name: str
    claims: tuple[Claim, ...] = ()

    @property
    def created(self) -> float:
        """When its first claim was made."""
        return min((claim.created for claim in self.claims), default=0.0)

    @property
    def deleting(self) -> str:
        """A claim that is being deleted, if one is."""
        return next((claim.name for claim in self.claims if claim.deleting), "")

    @property
    def unbound(self) -> str:
        """A claim that has no volume yet, if there is one."""
        return next((claim.name for claim in self.claims if claim.phase not in (BOUND, LOST)), "")

    @property
    def unusable(self) -> str:
        """Why no pod can use it, if so."""
        for claim in self.claims:
            if claim.unusable:
                return claim.unusable
            if claim.phase == LOST:
                return f"the volume of {claim.name} is lost"
        return ""

    def missing(self, templates: Iterable[str]) -> tuple[str, ...]:
        """The templates for which it has no claim."""
        there = {claim.template for claim in self.claims}
        return tuple(name for name in templates if name not in there)


def groups_by_name(claims: Iterable[Claim]) -> dict[str, ClaimGroup]:
    """All groups that there are claims of."""
    found: dict[str, list[Claim]] = {}
    for claim in claims:
        found.setdefault(claim.group, []).append(claim)
    return {name: ClaimGroup(name, tuple(members)) for name, members in found.items()}


def group_of(observed: Observed, name: str) -> ClaimGroup:
    """One group; without claims if there are none yet."""
    return ClaimGroup(name, tuple(claim for claim in observed.claims if claim.group == name))


def group_users(observed: Observed) -> dict[str, str]:
    """Which replica uses a group: pods until they are gone, and drawn replicas before they are there.

    Any pod counts that mounts a claim of the group, also one that is not ours: two pods on one volume
    are worse than a replica too few.
    """
    drawn = {draw.group: draw.replica for draw in observed.open_draws if draw.group}
    return {**observed.held, **drawn, **{pod.group: pod.name for pod in observed.pods if pod.group}}


def free_groups(observed: Observed) -> list[ClaimGroup]:
    """The groups that a new replica may take, the freshest data first."""
    used = group_users(observed)
    found = [
        group
        for group in groups_by_name(observed.claims).values()
        if group.name and group.name not in used and not group.deleting and not group.unusable
    ]
    templates = observed.wanted.templates
    return sorted(
        found,
        key=lambda group: (
            len(group.missing(templates)),
            -observed.freed.get(group.name, group.created),
            group.name,
        ),
    )


def group_to_adopt(observed: Observed) -> str:
    """The group that a new replica gets; empty: one of its own."""
    if not observed.wanted.templates or not observed.wanted.adopts_claims:
        return ""
    return next((group.name for group in free_groups(observed)), "")


def retired_claims(observed: Observed) -> list[Claim]:
    """Claims that are to be deleted: their group was given up and nobody uses it any more."""
    if not observed.wanted.delete_when_scaled:
        return []
    used = group_users(observed)
    names = set(observed.retiring) - set(used)
    return [claim for claim in observed.claims if claim.group in names and not claim.deleting]


def undersized_claims(observed: Observed) -> list[Claim]:
    """Claims that ask for less than their template does by now."""
    sizes = {name: parse_size(text) for name, text in observed.wanted.sizes.items()}
    return [
        claim
        for claim in observed.claims
        if parse_size(claim.requested) < sizes.get(claim.template, 0)
        and claim.phase == BOUND
        and not claim.deleting
    ]


def claims_to_expand(observed: Observed) -> list[Claim]:
    """Those of them that were not refused lately."""
    refused = observed.refused
    return [
        claim
        for claim in undersized_claims(observed)
        if claim.name not in refused or refused[claim.name].again <= observed.now
    ]


def next_expansion_at(observed: Observed) -> float | None:
    """When a claim that was refused is tried again: whoever comes to allow it tells nobody."""
    refused = observed.refused
    return min(
        (refused[claim.name].again for claim in undersized_claims(observed) if claim.name in refused),
        default=None,
    )


def parse_size(quantity: str) -> Decimal:
    """A quantity as a number; 0 for what is none."""
    return amount(quantity) or Decimal(0)
