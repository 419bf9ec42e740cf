"""Pods, claims and revisions as the API server sends them, reduced to what the cache keeps."""

from typing import TypeVar

import msgspec

from quintet.apis.meta import JsonObject, Object, ObjectKey, ObjectMeta, Struct
from quintet.apis.statefulcluster import (
    CLUSTER_LABEL,
    GROUP_LABEL,
    REVISION_LABEL,
    STATEFULCLUSTERS,
    TEMPLATE_LABEL,
    UNUSABLE,
    UNUSABLE_UNTIL,
)
from quintet.apis.text import truncate
from quintet.controllers.statefulcluster.decide.desired import digest
from quintet.controllers.statefulcluster.decide.observed import PENDING, Claim, Pod, Revision, parse_time

V = TypeVar("V", bound=Object)
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_CRASH_LOOP = "CrashLoopBackOff"


class _ClaimSource(Struct, frozen=True):
    claim_name: str = ""


class _Volume(Struct, frozen=True):
    persistent_volume_claim: _ClaimSource | None = None


class _PodSpec(Struct, frozen=True):
    volumes: tuple[_Volume, ...] = ()


class _Waiting(Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Running(Struct, frozen=True):
    started_at: str | None = None


class _ContainerState(Struct, frozen=True):
    waiting: _Waiting | None = None
    running: _Running | None = None


class _Container(Struct, frozen=True):
    name: str = ""
    started: bool | None = None
    state: _ContainerState = _ContainerState()
    restart_count: int = 0


class _PodCondition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class _PodStatus(Struct, frozen=True):
    phase: str = PENDING
    start_time: str | None = None
    conditions: tuple[_PodCondition, ...] = ()
    container_statuses: tuple[_Container, ...] = ()
    init_container_statuses: tuple[_Container, ...] = ()


class PodView(Object, frozen=True):
    """The fields that are read of a pod."""

    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _Resources(Struct, frozen=True):
    requests: dict[str, str] = msgspec.field(default_factory=dict)


class _ClaimSpec(Struct, frozen=True):
    volume_name: str = ""
    storage_class_name: str = ""
    resources: _Resources = _Resources()


class _ClaimStatus(Struct, frozen=True):
    phase: str = PENDING
    capacity: dict[str, str] = msgspec.field(default_factory=dict)
    conditions: tuple[_PodCondition, ...] = ()


class ClaimView(Object, frozen=True):
    """The fields that are read of a PersistentVolumeClaim."""

    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()


class RevisionView(Object, frozen=True):
    """The fields that are read of a ControllerRevision."""

    revision: int = 0
    data: JsonObject = msgspec.field(default_factory=dict)


def pod(view: PodView) -> Pod:
    """Return the cached part of a pod."""
    meta, status = view.metadata, view.status
    containers = status.container_statuses
    conditions = {condition.type: condition for condition in status.conditions}
    ready = conditions.get("Ready", _PodCondition())
    scheduled = conditions.get("PodScheduled", _PodCondition())
    owner_name, owner_uid = _controller(meta)
    starts = [parse_time(each.state.running.started_at) for each in containers if each.state.running]
    return Pod(
        key=ObjectKey(meta.namespace, meta.name),
        version=view.version,
        uid=meta.uid,
        owner_name=owner_name,
        owner_uid=owner_uid,
        labels=meta.labels,
        revision=meta.labels.get(REVISION_LABEL, ""),
        group=meta.labels.get(GROUP_LABEL, ""),
        claims=tuple(
            each.persistent_volume_claim.claim_name
            for each in view.spec.volumes
            if each.persistent_volume_claim is not None
        ),
        phase=status.phase,
        ready=ready.status == "True",
        ready_since=parse_time(ready.last_transition_time),
        accepted_at=parse_time(status.start_time or meta.creation_timestamp),
        started=all(each.started is not False for each in containers),
        started_at=max(starts, default=0.0),
        crash=_crash((*status.init_container_statuses, *containers)),
        unscheduled=scheduled.status == "False",
        why_pending=_why_pending(status, scheduled) if status.phase == PENDING else "",
        created=parse_time(meta.creation_timestamp),
        leaves_by=parse_time(meta.deletion_timestamp) if meta.deleting else None,
        cost=_cost(meta.annotations.get(_DELETION_COST, "")),
    )


def claim(view: ClaimView) -> Claim:
    """Return the cached part of a claim."""
    meta, status = view.metadata, view.status
    resizing = any("Resiz" in each.type and each.status == "True" for each in status.conditions)
    return Claim(
        key=ObjectKey(meta.namespace, meta.name),
        version=view.version,
        uid=meta.uid,
        cluster=meta.labels.get(CLUSTER_LABEL, ""),
        group=meta.labels.get(GROUP_LABEL, ""),
        template=meta.labels.get(TEMPLATE_LABEL, ""),
        phase=status.phase,
        volume=view.spec.volume_name,
        storage_class=view.spec.storage_class_name,
        node=meta.annotations.get(_SELECTED_NODE, ""),
        requested=view.spec.resources.requests.get("storage", ""),
        capacity=status.capacity.get("storage", ""),
        resizing=resizing,
        created=parse_time(meta.creation_timestamp),
        deleting=meta.deleting,
        unusable=meta.annotations.get(UNUSABLE, ""),
        until_reachable=UNUSABLE_UNTIL in meta.annotations,
        owners=tuple(reference.uid for reference in meta.owner_references),
    )


def revision(view: RevisionView) -> Revision:
    """Return the cached part of a revision. Its template is fetched when a pod is created from it."""
    meta = view.metadata
    owner_name, owner_uid = _controller(meta)
    return Revision(
        key=ObjectKey(meta.namespace, meta.name),
        version=view.version,
        uid=meta.uid,
        owner_name=owner_name,
        owner_uid=owner_uid,
        number=view.revision,
        digest=digest(view.data),
    )


def _controller(meta: ObjectMeta) -> tuple[str, str]:
    for reference in meta.owner_references:
        if reference.controller:
            ours = reference.kind == STATEFULCLUSTERS.kind
            ours = ours and reference.api_version.partition("/")[0] == STATEFULCLUSTERS.group
            return (reference.name if ours else ""), reference.uid
    return "", ""


def _crash(containers: tuple[_Container, ...]) -> str:
    for each in containers:
        waiting = each.state.waiting
        if waiting is not None and waiting.reason == _CRASH_LOOP:
            return f"container {each.name} crashes repeatedly ({each.restart_count} restarts)"
    return ""


def _why_pending(status: _PodStatus, scheduled: _PodCondition) -> str:
    """Return why a pod is pending, as its scheduler or node reports it."""
    if scheduled.status == "False":
        return truncate(f"{scheduled.reason}: {scheduled.message}", 512)
    for each in (*status.init_container_statuses, *status.container_statuses):
        waiting = each.state.waiting
        if waiting is not None and waiting.reason not in ("", "ContainerCreating", "PodInitializing"):
            text = f": {waiting.message}" if waiting.message else ""
            return truncate(f"container {each.name}: {waiting.reason}{text}", 512)
    return ""


def _cost(text: str) -> int:
    try:
        return int(text) if text else 0
    except ValueError:
        return 0
