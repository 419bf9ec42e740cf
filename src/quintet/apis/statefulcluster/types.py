"""A StatefulCluster: its names in the API, its status, and its declaration to the API server.

The spec is that of a StatefulSet, whole; what of it is read is typed in `spec`.
"""

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
"""`Never`: a replacement gets new claims although there are free ones. Otherwise `Always`."""
PLAN_ONLY: Final = "enge.me/plan-only"
"""`true`: say in the status what would be done, and do nothing."""
UNHEALTHY_GRACE: Final = "enge.me/unhealthy-grace-seconds"
"""How long a pod may be not ready before it counts as unhealthy."""
UNHEALTHY_GRACE_DEFAULT: Final = 30
LONGEST_GRACE: Final = 86_400
ANNOTATION_PREFIX: Final = "enge.me/"

REPLICA_LABEL: Final = "enge.me/replica"
"""On pods: the name of the replica, so that a Service can select a single one."""
GROUP_LABEL: Final = "enge.me/claim-group"
"""On claims, and on the pod that uses them: which claims belong together."""
CLUSTER_LABEL: Final = "enge.me/cluster"
"""On claims: the name of their StatefulCluster."""
TEMPLATE_LABEL: Final = "enge.me/claim-template"
"""On claims: the claim template that they were made from."""
UNUSABLE: Final = "enge.me/unusable"
"""Annotation on claims that were set aside: why. Whoever removes it makes them usable again."""
REVISION_LABEL: Final = "controller-revision-hash"
"""On pods: the name of the ControllerRevision that they were made from, as a StatefulSet has it."""

SUFFIX_LENGTH: Final = 8
"""Letters and digits of a draw: `<cluster>-<draw>` is a replica, `<template>-<cluster>-<draw>` a claim."""
LONGEST_NAME: Final = 52
"""A revision is `<name>-<ten characters>` and is a label; labels end at 63."""
NAME_RULE: Final = (
    f"must be at most {LONGEST_NAME} lower-case letters, digits and '-', and begin and end with a letter or "
    "digit, because names of pods and labels are made from it"
)
MOST_LISTED: Final = 1000
"""Names and claims in a status: what is beyond that is counted and not listed."""


class ConditionType(StrEnum):
    """The conditions of a StatefulCluster."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    BLOCKED = "Blocked"


class ClaimState(StrEnum):
    """InUse, Free, Terminating, Resizing or Unusable."""

    IN_USE = "InUse"
    FREE = "Free"
    TERMINATING = "Terminating"
    RESIZING = "Resizing"
    UNUSABLE = "Unusable"


ObjectName = Annotated[str, Meta(max_length=253)]


class Claim(Struct, frozen=True):
    """A line of the ledger: one claim, what it is for, and what happens to it next."""

    name: Annotated[str, Meta(description="The name of the PersistentVolumeClaim.", max_length=253)]
    state: Annotated[ClaimState, Meta(description="InUse, Free, Terminating, Resizing or Unusable.")]
    template: Annotated[str, Meta(description="The claim template it was made from.", max_length=253)] = ""
    group: Annotated[str, Meta(description="Claims of one group are used together.", max_length=63)] = ""
    replica: Annotated[str, Meta(description="The replica that uses it or used it last.", max_length=253)] = (
        ""
    )
    since: Annotated[str, DATE_TIME, Meta(description="Since when it is in that state.")] = ""
    next_step: Annotated[
        str, Meta(description="What happens to it next, or what you can do, in words.", max_length=512)
    ] = ""


class PlannedAction(Struct, frozen=True):
    """Something that the controller does next, or waits for."""

    action: Annotated[str, Meta(description="What is done, as one CamelCase word.", max_length=64)]
    target: Annotated[str, Meta(description="The pod or claim that it is done to.", max_length=253)] = ""
    reason: Annotated[str, Meta(description="Why, as one CamelCase word.", max_length=64)] = ""
    message: Annotated[str, Meta(description="Why, for people.", max_length=1024)] = ""


class Draw(Struct, frozen=True):
    """A name that was drawn for a replica, written down before anything was made under it."""

    replica: Annotated[str, Meta(description="The name of the pod.", max_length=253)]
    group: Annotated[str, Meta(description="The group of claims that it gets.", max_length=63)] = ""


class Setback(Struct, frozen=True):
    """How often pods of one revision had to be removed because they were unhealthy."""

    revision: Annotated[str, Meta(description="The revision of the pods.", max_length=253)]
    count: Annotated[int, Meta(description="Removals since a pod of it was last ready.", ge=0)] = 0
    last: Annotated[str, DATE_TIME, Meta(description="When the last one was removed.")] = ""


class StatefulClusterStatus(Struct, frozen=True, omit_defaults=False):
    """What became of it: the status of a StatefulSet, and what a StatefulSet does not tell."""

    observed_generation: Annotated[int, Meta(description="The generation that was acted on.", ge=0)] = 0
    replicas: Annotated[int, Meta(description="Pods that there are, terminating ones aside.", ge=0)] = 0
    ready_replicas: Annotated[int, Meta(description="Pods that are ready.", ge=0)] = 0
    available_replicas: Annotated[
        int, Meta(description="Pods that have been ready for minReadySeconds.", ge=0)
    ] = 0
    current_replicas: Annotated[int, Meta(description="Pods of the current revision.", ge=0)] = 0
    updated_replicas: Annotated[int, Meta(description="Pods of the newest revision.", ge=0)] = 0
    terminating_replicas: Annotated[int, Meta(description="Pods that are about to go.", ge=0)] = 0
    current_revision: Annotated[
        str, Meta(description="The revision that an update started from.", max_length=253)
    ] = ""
    update_revision: Annotated[str, Meta(description="The revision of the template.", max_length=253)] = ""
    collision_count: Annotated[int, Meta(description="How often the name of a revision was taken.", ge=0)] = 0
    ready: Annotated[str, Meta(description="Ready and wanted pods, as 2/3.", max_length=32)] = ""
    selector: Annotated[str, Meta(description="Finds the pods, for autoscalers.", max_length=65536)] = ""
    replica_names: Annotated[
        tuple[ObjectName, ...],
        SET,
        Meta(description="The replicas that there are, the oldest first.", max_length=MOST_LISTED),
    ] = ()
    claims: Annotated[
        tuple[Claim, ...],
        list_map("name"),
        Meta(description="Every claim of this cluster and what happens to it.", max_length=MOST_LISTED),
    ] = ()
    claims_not_listed: Annotated[int, Meta(description="Claims beyond those that are listed.", ge=0)] = 0
    plan: Annotated[
        tuple[PlannedAction, ...],
        ATOMIC,
        Meta(description="What is done next, and why.", max_length=16),
    ] = ()
    draws: Annotated[
        tuple[Draw, ...],
        list_map("replica"),
        Meta(
            description="Replicas that are being made: the names are written down before they are used.",
            max_length=MOST_LISTED,
        ),
    ] = ()
    retiring: Annotated[
        tuple[Annotated[str, Meta(max_length=63)], ...],
        SET,
        Meta(
            description="Groups of claims that are deleted once their replica is gone.",
            max_length=MOST_LISTED,
        ),
    ] = ()
    setbacks: Annotated[
        tuple[Setback, ...],
        list_map("revision"),
        Meta(description="Unhealthy pods that were removed, by revision.", max_length=16),
    ] = ()
    conditions: Conditions = ()


class StatefulCluster(Object, frozen=True, kw_only=True):
    """A StatefulSet without ordinals: replicas with random names, each with claims of its own."""

    spec: StatefulClusterSpec
    status: StatefulClusterStatus = StatefulClusterStatus()

    @property
    def adopts_claims(self) -> bool:
        """Whether a replacement takes free claims; anything but `Never` keeps the data in use."""
        return self.metadata.annotations.get(CLAIM_ADOPTION, "") != "Never"

    @property
    def plan_only(self) -> bool:
        """Whether nothing is to be done; in doubt, nothing is."""
        return self.metadata.annotations.get(PLAN_ONLY, "false") != "false"

    @property
    def unhealthy_grace(self) -> int:
        """Seconds that a pod may be not ready."""
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
        Column("Ready", ".status.ready", description="Ready and wanted pods."),
        Column("Up-to-date", ".status.updatedReplicas", type="integer", description="Pods of the template."),
        Column("Available", ".status.availableReplicas", type="integer", description="Pods that serve."),
        AGE,
        _condition("Progressing", "Whether something is being done."),
        _condition("Degraded", "Whether it has given up for now."),
        _condition("Blocked", "Whether something keeps it from going on."),
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
