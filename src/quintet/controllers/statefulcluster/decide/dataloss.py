"""When a replica may give up its claims and start with empty ones: policy, grace period, floor and consent.

Whatever is unsure, the data decides: a volume that may come back is waited for.
"""

import math
from dataclasses import dataclass

from quintet.apis.statefulcluster import GIVE_UP_CLAIMS, ClaimContent, DataLossPolicy
from quintet.controllers.statefulcluster.decide import claims
from quintet.controllers.statefulcluster.decide.claims import ClaimGroup
from quintet.controllers.statefulcluster.decide.observed import LOST, Observed, Pod, format_time


@dataclass(frozen=True, slots=True)
class Loss:
    """Why the claims of a replica cannot be used now."""

    why: str
    since: float
    may_return: bool = False
    """Whether the volume comes back when nodes are added, so that only a user can know that it is lost."""


@dataclass(frozen=True, slots=True)
class DataLossDecision:
    """Whether a replica gives up its claims, and the reason."""

    gives_up: bool
    message: str
    due: float | None = None
    """When the claims are given up, if nothing changes."""
    needs_consent: bool = False


def find_loss(observed: Observed, group: ClaimGroup) -> Loss | None:
    """Return why a group cannot be used, or None if nothing is known against it."""
    since = observed.lost_since.get(group.name, observed.now)
    for claim in group.claims:
        if claim.phase == LOST:
            return Loss(f"the volume of claim {claim.name} is lost", since)
    look = observed.looks.get(group.name)
    return Loss(look.why, since, look.may_return) if look is not None and look.why else None


def decide(observed: Observed, pod: Pod, group: ClaimGroup, loss: Loss) -> DataLossDecision:
    """Return whether a replica gives up its claims now."""
    policy = observed.spec.data_loss
    data = f"data of replica {pod.name} (claims {', '.join(claim.name for claim in group.claims)})"
    if observed.content(group.name) is ClaimContent.EMPTY:
        return DataLossDecision(True, f"{loss.why}; no replica has ever been ready with it")
    if _has_consent(observed, group):
        return DataLossDecision(True, f"{loss.why}; {GIVE_UP_CLAIMS} allows it to give up the {data}")
    consent = _describe_consent(group, data)
    if policy.policy is DataLossPolicy.NEVER:
        return DataLossDecision(False, f"{loss.why}; dataLoss.policy is Never; {consent}", needs_consent=True)
    if policy.policy is DataLossPolicy.ASK:
        return DataLossDecision(False, f"{loss.why}; dataLoss.policy is Ask; {consent}", needs_consent=True)
    if loss.may_return:
        return DataLossDecision(False, f"{loss.why}; {consent}", needs_consent=True)
    left, floor = count_intact(observed, without=group.name), find_floor(observed)
    if left < floor:
        text = f"only {left} ready replicas have data, and dataLoss.minDataReplicas is {floor}"
        return DataLossDecision(False, f"{loss.why}; {text}; {consent}", needs_consent=True)
    due = loss.since + policy.after
    if observed.now < due:
        text = f"{loss.why}; it gives up the {data} at {format_time(due)}, unless the volume comes back"
        return DataLossDecision(False, text, due)
    return DataLossDecision(
        True, f"{loss.why}, since {format_time(loss.since)}; {left} other replicas have data"
    )


def count_intact(observed: Observed, *, without: str = "") -> int:
    """Count the ready replicas whose claims have data and are not known to be lost."""
    groups = claims.groups_by_name(observed.claims)
    return sum(
        pod.ready
        and pod.group != without
        and pod.group in groups
        and find_loss(observed, groups[pod.group]) is None
        for pod in observed.active
    )


def find_floor(observed: Observed) -> int:
    """Return how many replicas must have data before one more may give up its own."""
    amount, replicas = observed.spec.data_loss.min_data_replicas, observed.spec.replicas
    if isinstance(amount, int):
        return amount
    return math.ceil(int(amount.removesuffix("%")) * replicas / 100)


def _has_consent(observed: Observed, group: ClaimGroup) -> bool:
    uids = {claim.uid for claim in group.claims}
    return bool(uids) and uids <= observed.consent


def _describe_consent(group: ClaimGroup, data: str) -> str:
    claim = group.claims[0]
    uids = ",".join(claim.uid for claim in group.claims)
    return (
        f"to give up the {data} and start it with empty volumes: kubectl annotate stc {claim.cluster} "
        f"-n {claim.key.namespace} --overwrite {GIVE_UP_CLAIMS}={uids}"
    )
