"""Build the observed state of a StatefulCluster from the objects of its namespace."""

from collections.abc import Iterable

import msgspec

from quintet.apis.duration import parse_seconds
from quintet.apis.labels import matches
from quintet.apis.statefulcluster import (
    REPLICA_LABEL,
    PodManagement,
    Retention,
    StatefulCluster,
    Update,
)
from quintet.controllers.statefulcluster.decide import desired, ledger, revisions
from quintet.controllers.statefulcluster.decide.observed import (
    Claim,
    DataLossRule,
    DesiredState,
    ExpansionRefusal,
    Observed,
    Pod,
    Revision,
    VolumeLook,
)


def observe(
    cluster: StatefulCluster,
    update_revision: str,
    pods: Iterable[Pod],
    claims: Iterable[Claim],
    known: Iterable[Revision],
    now: float,
    refused: dict[str, ExpansionRefusal] | None = None,
    looks: dict[str, VolumeLook] | None = None,
    postponed: dict[str, float] | None = None,
) -> Observed:
    """Return the observed state: which pods, claims and revisions concern the cluster, and how."""
    own, orphans, foreign, before = list[Pod](), list[Pod](), list[Pod](), list[Pod]()
    claims = tuple(claims)
    unlabelled = find_unlabelled(cluster, claims)
    mine = (*_labelled_claims(cluster, claims), *unlabelled)
    groups, held = {claim.name: claim.group for claim in mine}, dict[str, str]()
    for pod in pods:
        held |= {groups[name]: pod.name for name in pod.claims if name in groups}
        if pod.owner_uid == cluster.metadata.uid:
            own.append(pod)
        elif pod.owner_name == cluster.metadata.name:
            before.append(pod)
        elif not pod.owner_name and selects(cluster, pod):
            (orphans if _is_orphan(cluster, pod) else foreign).append(pod)
    status = cluster.status
    return Observed(
        now=now,
        spec=desired_state(cluster),
        update_revision=update_revision,
        current_revision=revisions.current(cluster, known, update_revision),
        uid=cluster.metadata.uid,
        pods=tuple(sorted(own, key=_age)),
        orphans=tuple(sorted(orphans, key=_age)),
        foreign=tuple(sorted((pod for pod in foreign if not pod.leaving), key=_age)),
        before=tuple(sorted(before, key=_age)),
        claims=tuple(sorted(mine, key=lambda claim: claim.name)),
        unlabelled=unlabelled,
        draws=status.draws,
        retiring=status.retiring,
        setbacks=status.setbacks,
        freed=ledger.find_released(cluster, mine, now),
        lost_since=ledger.find_lost_since(cluster),
        contents=ledger.find_contents(cluster, own, mine),
        consent=frozenset(uid.strip() for uid in cluster.give_up_claims.split(",") if uid.strip()),
        looks=looks or {},
        held=held,
        postponed=postponed or {},
        refused=refused or {},
    )


def find_unlabelled(cluster: StatefulCluster, claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Return the claims without the label of a cluster that belong to this one.

    The status lists them, or their other labels say for which group of this cluster they were created.
    """
    lines = {line.name: line for line in cluster.status.claims}
    found = []
    for claim in claims:
        line = lines.get(claim.name)
        group, template = (line.group, line.template) if line is not None else (claim.group, claim.template)
        named = bool(group) and claim.name == desired.claim_name(cluster, template, group)
        if not claim.cluster and (line is not None or named):
            own = {"cluster": cluster.metadata.name, "group": group, "template": template}
            found.append(msgspec.structs.replace(claim, **own))
    return tuple(found)


def missing_claims(cluster: StatefulCluster, pods: Iterable[Pod], claims: Iterable[Claim]) -> list[str]:
    """Return the names of claims that the status lists or replicas use, and that the cache does not have."""
    there = {claim.name for claim in claims}
    groups = {pod.group for pod in pods} | {draw.group for draw in cluster.status.draws}
    used = {
        desired.claim_name(cluster, template, group)
        for group in filter(None, groups)
        for template in desired.template_names(cluster)
    }
    return sorted((used | {line.name for line in cluster.status.claims}) - there)


def _labelled_claims(cluster: StatefulCluster, claims: Iterable[Claim]) -> list[Claim]:
    return [_with_usable_name(cluster, claim) for claim in claims if claim.cluster == cluster.metadata.name]


def _with_usable_name(cluster: StatefulCluster, claim: Claim) -> Claim:
    """Return a claim; one that has another name than pods use belongs to no group and cannot be used."""
    name = desired.claim_name(cluster, claim.template, claim.group)
    if claim.name == name:
        return claim
    why = f"pods use the claim {name} for its labels: restore the data under that name, or delete it"
    return msgspec.structs.replace(claim, group="", unusable=why)


def desired_state(cluster: StatefulCluster) -> DesiredState:
    """Return the spec in the form that the plan uses."""
    spec = cluster.spec
    strategy = spec.update_strategy
    retention = spec.persistent_volume_claim_retention_policy
    return DesiredState(
        replicas=spec.replicas,
        parallel=spec.pod_management_policy is PodManagement.PARALLEL,
        on_delete=strategy.type is Update.ON_DELETE,
        partition=strategy.rolling_update.partition,
        max_unavailable=resolve_amount(strategy.rolling_update.max_unavailable, spec.replicas),
        min_ready=float(spec.min_ready_seconds),
        grace=float(cluster.unhealthy_grace),
        templates=desired.template_names(cluster),
        adopts_claims=cluster.adopts_claims,
        delete_when_scaled=retention.when_scaled is Retention.DELETE,
        keep_when_scaled=parse_seconds(spec.cluster.when_scaled.after) or 0.0,
        delete_with_cluster=retention.when_deleted is Retention.DELETE,
        sizes=desired.wanted_sizes(cluster),
        data_loss=DataLossRule.of(spec.cluster.data_loss),
    )


def resolve_amount(amount: int | str, replicas: int) -> int:
    """Resolve a number or a percentage of the replicas; rounded down as in a StatefulSet, at least 1."""
    if isinstance(amount, int):
        return max(1, amount)
    percent = amount.removesuffix("%")
    return max(1, int(percent) * replicas // 100) if percent.isdecimal() else 1


def selects(cluster: StatefulCluster, pod: Pod) -> bool:
    """Return whether the selector matches a pod. An empty selector matches nothing."""
    selector = cluster.spec.selector
    return bool(selector.match_labels or selector.match_expressions) and matches(selector, pod.labels)


def _is_orphan(cluster: StatefulCluster, pod: Pod) -> bool:
    """Return whether a pod is a former replica of a cluster of this name that has no controller now."""
    ours = pod.labels.get(REPLICA_LABEL) == pod.name and pod.name.startswith(f"{cluster.metadata.name}-")
    return ours and not pod.owner_uid and not pod.leaving


def _age(pod: Pod) -> tuple[float, str]:
    return pod.created, pod.name
