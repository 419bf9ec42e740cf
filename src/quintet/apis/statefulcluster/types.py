"""The types of StatefulCluster; its spec is in `spec`."""

import dataclasses
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta

from quintet.apis.markers import ATOMIC, DATE_TIME, SET, Rule, list_map
from quintet.apis.meta import Object, Resource, Struct
from quintet.apis.resources import AGE, Column, CustomResource, Scale
from quintet.apis.statefulcluster.spec import StatefulClusterSpec
from quintet.apis.wellknown import Conditions

STATEFULCLUSTERS = Resource("enge.me", "v1alpha1", "StatefulCluster", "statefulclusters")
STATEFUL_SET_SPEC: Final = "io.k8s.api.apps.v1.StatefulSetSpec"

CLAIM_ADOPTION: Final = "enge.me/claim-adoption"
"""`Never`: a replacement gets new claims even if there are free ones. Default: `Always`."""
PLAN_ONLY: Final = "enge.me/plan-only"
"""`true`: report the plan in the status, but do not execute it."""
UNHEALTHY_GRACE: Final = "enge.me/unhealthy-grace-seconds"
"""Seconds that a pod may be not ready before it is unhealthy."""
UNHEALTHY_GRACE_DEFAULT: Final = 30
LONGEST_GRACE: Final = 86_400
ANNOTATION_PREFIX: Final = "enge.me/"

REPLICA_LABEL: Final = "enge.me/replica"
"""Label of pods: the name of the replica, so that a Service can select a single one."""
GROUP_LABEL: Final = "enge.me/claim-group"
"""Label of claims and of the pod that uses them: the group of the claims."""
CLUSTER_LABEL: Final = "enge.me/cluster"
"""Label of claims: the name of their StatefulCluster."""
TEMPLATE_LABEL: Final = "enge.me/claim-template"
"""Label of claims: the name of their claim template."""
UNUSABLE: Final = "enge.me/unusable"
"""Annotation of unusable claims: the reason. Removing it makes them usable again."""
UNUSABLE_UNTIL: Final = "enge.me/unusable-until"
"""Annotation of unusable claims that the controller uses again by itself: `Reachable`."""
GIVE_UP_CLAIMS: Final = "enge.me/give-up-claims"
"""Uids of claims, separated by commas, whose data may be given up."""
REVISION_LABEL: Final = "controller-revision-hash"
"""Label of pods: the name of their ControllerRevision, as for a StatefulSet."""

SUFFIX_LENGTH: Final = 8
"""Length of the random suffix: `<cluster>-<suffix>` is a replica, `<template>-<cluster>-<suffix>` a claim."""
LONGEST_NAME: Final = 52
"""The name of a revision is `<name>-<ten characters>` and a label value, which has at most 63."""
NAME_RULE: Final = (
    f"must be at most {LONGEST_NAME} lower-case letters, digits and '-', and begin and end with a letter or "
    "digit, because it is part of pod names and label values"
)
MOST_LISTED: Final = 1000
"""Maximum number of names and claims in a status; the others are only counted."""


class ConditionType(StrEnum):
    """The conditions of a StatefulCluster."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    BLOCKED = "Blocked"


class ClaimState(StrEnum):
    """InUse, Free, Terminating, Resizing, Unreachable or Unusable."""

    IN_USE = "InUse"
    FREE = "Free"
    TERMINATING = "Terminating"
    RESIZING = "Resizing"
    UNREACHABLE = "Unreachable"
    UNUSABLE = "Unusable"


class ClaimContent(StrEnum):
    """Data, Unknown or Empty."""

    DATA = "Data"
    UNKNOWN = "Unknown"
    EMPTY = "Empty"


ObjectName = Annotated[str, Meta(max_length=253)]


class Claim(Struct, frozen=True):
    """One PersistentVolumeClaim of the cluster, its state, and the next step."""

    name: Annotated[str, Meta(description="The name of the PersistentVolumeClaim.", max_length=253)]
    state: Annotated[
        ClaimState, Meta(description="InUse, Free, Terminating, Resizing, Unreachable or Unusable.")
    ]
    template: Annotated[str, Meta(description="The name of its claim template.", max_length=253)] = ""
    group: Annotated[
        str, Meta(description="The group of claims that one replica uses together.", max_length=63)
    ] = ""
    replica: Annotated[
        str, Meta(description="The replica that uses it, or used it last.", max_length=253)
    ] = ""
    since: Annotated[str, DATE_TIME, Meta(description="When it entered this state.")] = ""
    released: Annotated[
        str,
        DATE_TIME,
        Meta(description="When its last replica began to release it; empty while it is in use."),
    ] = ""
    content: Annotated[
        ClaimContent,
        Meta(
            description="Data, if a replica has been ready with it. Empty, if none has. Unknown, if its pod "
            "disappeared and may have been ready before."
        ),
    ] = ClaimContent.DATA
    next_step: Annotated[
        str, Meta(description="What happens to it next, or what you can do.", max_length=512)
    ] = ""


class PlannedAction(Struct, frozen=True):
    """An action that the controller takes next, or waits for."""

    action: Annotated[str, Meta(description="The action as one CamelCase word.", max_length=64)]
    target: Annotated[str, Meta(description="The pod or claim that it concerns.", max_length=253)] = ""
    reason: Annotated[str, Meta(description="The reason as one CamelCase word.", max_length=64)] = ""
    message: Annotated[str, Meta(description="A human-readable explanation.", max_length=1024)] = ""


class Draw(Struct, frozen=True):
    """A random name for a new replica, stored before anything is created under it."""

    replica: Annotated[str, Meta(description="The name of the pod.", max_length=253)]
    group: Annotated[str, Meta(description="The group of claims that the replica gets.", max_length=63)] = ""


class Setback(Struct, frozen=True):
    """How many unhealthy pods of one revision were deleted."""

    revision: Annotated[str, Meta(description="The revision of the pods.", max_length=253)]
    count: Annotated[
        int, Meta(description="Deletions since a pod of this revision was last ready.", ge=0)
    ] = 0
    last: Annotated[str, DATE_TIME, Meta(description="When the last one was deleted.")] = ""


class StatefulClusterStatus(Struct, frozen=True, omit_defaults=False):
    """The observed status: that of a StatefulSet, with claims and plan."""

    observed_generation: Annotated[int, Meta(description="The generation last reconciled.", ge=0)] = 0
    replicas: Annotated[int, Meta(description="The number of pods, without terminating ones.", ge=0)] = 0
    ready_replicas: Annotated[int, Meta(description="The number of ready pods.", ge=0)] = 0
    available_replicas: Annotated[
        int, Meta(description="The number of pods that have been ready for minReadySeconds.", ge=0)
    ] = 0
    current_replicas: Annotated[
        int, Meta(description="The number of pods of the current revision.", ge=0)
    ] = 0
    updated_replicas: Annotated[int, Meta(description="The number of pods of the update revision.", ge=0)] = 0
    terminating_replicas: Annotated[int, Meta(description="The number of terminating pods.", ge=0)] = 0
    current_revision: Annotated[
        str, Meta(description="The revision before the current update.", max_length=253)
    ] = ""
    update_revision: Annotated[
        str, Meta(description="The revision of the current template.", max_length=253)
    ] = ""
    collision_count: Annotated[
        int, Meta(description="The number of hash collisions of revision names.", ge=0)
    ] = 0
    ready: Annotated[str, Meta(description="Ready and desired pods, such as 2/3.", max_length=32)] = ""
    selector: Annotated[
        str, Meta(description="The label selector of the pods, for autoscalers.", max_length=65536)
    ] = ""
    replica_names: Annotated[
        tuple[ObjectName, ...],
        SET,
        Meta(description="The names of the replicas, oldest first.", max_length=MOST_LISTED),
    ] = ()
    claims: Annotated[
        tuple[Claim, ...],
        list_map("name"),
        Meta(description="The claims of this cluster and their states.", max_length=MOST_LISTED),
    ] = ()
    claims_not_listed: Annotated[int, Meta(description="The number of claims that are not listed.", ge=0)] = 0
    plan: Annotated[
        tuple[PlannedAction, ...],
        ATOMIC,
        Meta(description="The next actions and their reasons.", max_length=16),
    ] = ()
    draws: Annotated[
        tuple[Draw, ...],
        list_map("replica"),
        Meta(
            description="Replicas that are being created: their names are stored before they are used.",
            max_length=MOST_LISTED,
        ),
    ] = ()
    retiring: Annotated[
        tuple[Annotated[str, Meta(max_length=63)], ...],
        SET,
        Meta(
            description="Groups of claims that are deleted after their replica.",
            max_length=MOST_LISTED,
        ),
    ] = ()
    setbacks: Annotated[
        tuple[Setback, ...],
        list_map("revision"),
        Meta(description="Deletions of unhealthy pods, by revision.", max_length=16),
    ] = ()
    conditions: Conditions = ()


class StatefulCluster(Object, frozen=True, kw_only=True):
    """A StatefulSet without ordinals: replicas have random names and their own claims."""

    spec: StatefulClusterSpec
    status: StatefulClusterStatus = StatefulClusterStatus()

    @property
    def adopts_claims(self) -> bool:
        """Whether a replacement adopts free claims; every value except `Never` does."""
        return self.metadata.annotations.get(CLAIM_ADOPTION, "") != "Never"

    @property
    def plan_only(self) -> bool:
        """Whether the plan is only reported; every value except `false` means yes."""
        return self.metadata.annotations.get(PLAN_ONLY, "false") != "false"

    @property
    def give_up_claims(self) -> str:
        """Uids of the claims whose data may be given up, separated by commas."""
        return self.metadata.annotations.get(GIVE_UP_CLAIMS, "")

    @property
    def unhealthy_grace(self) -> int:
        """Seconds that a pod may be not ready before it is unhealthy."""
        text = self.metadata.annotations.get(UNHEALTHY_GRACE, "")
        known = text.isascii() and text.isdecimal() and len(text) < 10
        return min(int(text), LONGEST_GRACE) if known else UNHEALTHY_GRACE_DEFAULT


def _condition(kind: str, description: str) -> Column:
    return dataclasses.replace(Column.condition(kind, description), wide=True)


STATEFULCLUSTER = CustomResource(
    resource=STATEFULCLUSTERS,
    type=StatefulCluster,
    spec_from=STATEFUL_SET_SPEC,
    short_names=("stc",),
    columns=(
        Column("Ready", ".status.ready", description="Ready and desired pods."),
        Column(
            "Up-to-date",
            ".status.updatedReplicas",
            type="integer",
            description="Pods of the current template.",
        ),
        Column("Available", ".status.availableReplicas", type="integer", description="Available pods."),
        AGE,
        _condition("Progressing", "Whether pods or claims are being changed."),
        _condition("Degraded", "Whether progress has stopped because of failures."),
        _condition("Blocked", "Whether it waits for something or somebody else."),
    ),
    scale=Scale(),
    rules=(
        Rule(
            f"size(self.metadata.name) <= {LONGEST_NAME} "
            "&& self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            NAME_RULE,
        ),
    ),
)
