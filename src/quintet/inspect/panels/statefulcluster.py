"""The replicas of a StatefulCluster with their volumes, its other claims, and its plan. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quintet.apis.statefulcluster import REPLICA_LABEL, REVISION_LABEL, ClaimState
from quintet.inspect.panels.panel import Panel
from quintet.inspect.states import ChildState, child_state
from quintet.inspect.status import Rating
from quintet.kube.client import PODS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quintet.apis.meta import JsonObject

_CLAIM_RATINGS: dict[str, Rating] = {
    ClaimState.IN_USE: Rating.GOOD,
    ClaimState.UNREACHABLE: Rating.BAD,
    ClaimState.UNUSABLE: Rating.BAD,
}


def statefulcluster_panels(body: JsonObject, pods: Sequence[JsonObject] | None) -> tuple[Panel, ...]:
    """Return what is not empty of: replicas, claims that no replica uses, planned actions.

    `pods` is None if the user has no permission to list them.
    """
    status = body.get("status") or {}
    claims = status.get("claims") or ()
    found = {each["metadata"]["name"]: each for each in pods or () if _replica_name(each)}
    names = list(dict.fromkeys((*(status.get("replicaNames") or ()), *sorted(found))))
    used = [
        each for each in claims if each.get("state") == ClaimState.IN_USE and each.get("replica") in names
    ]
    others = tuple(_claim_row(each) for each in claims if each not in used)
    missing = ChildState() if pods is None else ChildState("no pod", Rating.OPEN)
    rows = tuple(_replica_row(name, found.get(name) or missing, used, status) for name in names)
    actions = tuple(
        tuple(str(each.get(key) or "") for key in ("action", "target", "reason", "message"))
        for each in status.get("plan") or ()
    )
    not_listed = int(status.get("claimsNotListed") or 0)
    panels = (
        Panel(
            "Replicas",
            ("Replica", "State", "Revision", "Node", "Volumes", "Problem"),
            rows,
            remark="you have no permission to list their pods" if pods is None else "",
        ),
        Panel(
            "Claims that no replica uses",
            ("Claim", "State", "Since", "Last replica", "Next"),
            others,
            remark=f"{not_listed} more claims are not listed" if not_listed else "",
        ),
        Panel("Plan", ("Action", "Target", "Reason", "Message"), actions),
    )
    return tuple(each for each in panels if each.rows)


def _replica_name(pod: JsonObject) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REPLICA_LABEL) or "")


def _replica_row(
    name: str, pod: JsonObject | ChildState, claims: Sequence[Mapping[str, Any]], status: Mapping[str, Any]
) -> tuple[str | ChildState, ...]:
    volumes = ", ".join(str(each["name"]) for each in claims if each.get("replica") == name)
    if isinstance(pod, ChildState):
        return (name, pod, "", "", volumes, "")
    state = child_state(PODS, pod)
    revision = str((pod["metadata"].get("labels") or {}).get(REVISION_LABEL) or "")
    outdated = revision and status.get("updateRevision") not in (revision, "", None)
    node = str((pod.get("spec") or {}).get("nodeName") or "")
    return (name, state, f"{revision} (old)" if outdated else revision, node, volumes, state.detail)


def _claim_row(claim: Mapping[str, Any]) -> tuple[str | ChildState, ...]:
    state = str(claim.get("state") or "")
    rating = _CLAIM_RATINGS.get(state, Rating.NEUTRAL)
    rest = (str(claim.get(key) or "") for key in ("since", "replica", "nextStep"))
    return (str(claim.get("name")), ChildState(state, rating), *rest)
