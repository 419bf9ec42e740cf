"""The spec of StatefulCluster: the fields of a StatefulSetSpec that the controller reads.

The schema is that of Kubernetes (`manifests.openapi`), refined by the bounds, defaults, rules and
descriptions here. Templates are not decoded.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from msgspec import Meta

from quintet.apis.casconfig.spec import EmbeddedConfig
from quintet.apis.duration import PATTERN
from quintet.apis.labels import Selector
from quintet.apis.markers import DEFAULTED, Keywords, Rule, Verbatim
from quintet.apis.meta import JsonObject, Struct


class PodManagement(StrEnum):
    """Whether pods are created and deleted one by one."""

    ORDERED_READY = "OrderedReady"
    PARALLEL = "Parallel"


class Update(StrEnum):
    """How pods of an older revision are replaced."""

    ROLLING_UPDATE = "RollingUpdate"
    ON_DELETE = "OnDelete"


class Retention(StrEnum):
    """What happens to claims that no replica uses any more."""

    RETAIN = "Retain"
    DELETE = "Delete"


class RollingUpdate(Struct, frozen=True):
    """Limits of a rolling update."""

    partition: Annotated[
        int,
        Meta(description="The number of replicas, oldest first, that keep their revision.", ge=0),
        DEFAULTED,
    ] = 0
    max_unavailable: Annotated[
        int | str,
        Meta(
            description="The maximum number of replicas that may be unavailable during an update, as a "
            "number or a percentage of the replicas."
        ),
        Rule(
            "type(self) == int ? self > 0 : self.matches('^([1-9][0-9]?|100)%$')",
            "must be a number above 0, or a percentage from 1% to 100%",
        ),
        DEFAULTED,
    ] = 1


class UpdateStrategy(Struct, frozen=True):
    """How a new template is rolled out."""

    type: Annotated[
        Update,
        Meta(
            description="RollingUpdate replaces pods of an older revision, newest first. OnDelete replaces a "
            "pod only after a user has deleted it."
        ),
        DEFAULTED,
    ] = Update.ROLLING_UPDATE
    rolling_update: Annotated[RollingUpdate, Meta(description="Only for RollingUpdate.")] = RollingUpdate()
    rules: ClassVar = (
        Rule(
            "self.type != 'OnDelete' || !has(self.rollingUpdate)",
            "rollingUpdate is only allowed with type RollingUpdate",
        ),
    )


class RetentionPolicy(Struct, frozen=True):
    """What happens to claims after scaling down, and after the deletion of the StatefulCluster."""

    when_deleted: Annotated[
        Retention, Meta(description="For all claims, when the StatefulCluster is deleted."), DEFAULTED
    ] = Retention.RETAIN
    when_scaled: Annotated[
        Retention, Meta(description="For the claims of a replica that is deleted by scaling down."), DEFAULTED
    ] = Retention.RETAIN


class DataLossPolicy(StrEnum):
    """Whether a replica may give up claims whose volume cannot be used."""

    NEVER = "Never"
    ASK = "Ask"
    AFTER = "After"


class DataLoss(Struct, frozen=True):
    """When a replica whose volumes cannot be used gives up their data and starts with empty volumes."""

    policy: Annotated[
        DataLossPolicy,
        Meta(
            description="After: after a while, as long as enough other replicas have data. Ask: only with "
            "the annotation enge.me/give-up-claims. Never: the replica waits for its volumes; the annotation "
            "still decides."
        ),
        DEFAULTED,
    ] = DataLossPolicy.AFTER
    after: Annotated[
        str,
        Meta(description="How long volumes must be unusable, such as 10m; at least 1m.", max_length=32),
        Keywords({"pattern": PATTERN}),
        DEFAULTED,
    ] = "10m"
    min_data_replicas: Annotated[
        int | str,
        Meta(
            description="How many other ready replicas must have data, as a number or a percentage of the "
            "replicas (rounded up). Below that, only the annotation enge.me/give-up-claims decides."
        ),
        Rule(
            "type(self) == int ? self >= 0 : self.matches('^([0-9]|[1-9][0-9]|100)%$')",
            "must be a number, or a percentage from 0% to 100%",
        ),
        DEFAULTED,
    ] = "51%"


class ScaledDown(Struct, frozen=True):
    """What happens to the claims of replicas that were removed by scaling down."""

    after: Annotated[
        str,
        Meta(
            description="How long they are kept before persistentVolumeClaimRetentionPolicy.whenScaled "
            "Delete deletes them, such as 7d. Scaling up again uses them again.",
            max_length=32,
        ),
        Keywords({"pattern": PATTERN}),
        DEFAULTED,
    ] = "0s"


class Extensions(Struct, frozen=True):
    """Fields that a StatefulSet does not have."""

    data_loss: Annotated[
        DataLoss,
        Meta(description="When a replica gives up the data on volumes that cannot be used."),
    ] = DataLoss()
    when_scaled: Annotated[
        ScaledDown,
        Meta(description="What happens to the claims of replicas that were removed by scaling down."),
    ] = ScaledDown()
    cas_config: Annotated[
        EmbeddedConfig | None,
        Meta(
            description="Policies of a CASConfig that are applied to the pods and to new claims of this "
            "object before they are written. A change is a new revision."
        ),
    ] = None


# Refines the items of claim templates: their names are also volume names and label values.
_NAME: JsonObject = {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
_NAMED: JsonObject = {
    "type": "object",
    "properties": {"metadata": {"type": "object", "properties": {"name": _NAME}}},
}
_TEMPLATE_NAMES: Final = (
    "(has({0}.volumeClaimTemplates) ? {0}.volumeClaimTemplates.map(each, "
    "has(each.metadata) && has(each.metadata.name) ? each.metadata.name : '') : [])"
)


class StatefulClusterSpec(Struct, frozen=True):
    """The spec of a StatefulSet; replicas have random names and no ordinals."""

    selector: Annotated[
        Selector,
        Meta(
            description="The label selector of the pods. It must match the labels of the template. Immutable."
        ),
        Rule("self == oldSelf", "selector must not be changed"),
        Rule(
            "(has(self.matchLabels) && size(self.matchLabels) > 0) "
            "|| (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
            "selector must not be empty: an empty selector selects every pod",
        ),
    ]
    template: Annotated[
        JsonObject,
        Verbatim({"type": "object"}),
        Meta(description="The pod template, as of a StatefulSet."),
        Rule(
            "!has(self.spec) || !has(self.spec.restartPolicy) || self.spec.restartPolicy in ['', 'Always']",
            "spec.restartPolicy must be Always",
        ),
        Rule(
            "!has(self.spec) || !has(self.spec.activeDeadlineSeconds)",
            "spec.activeDeadlineSeconds must not be set",
        ),
    ]
    replicas: Annotated[int, Meta(description="The desired number of replicas.", ge=0), DEFAULTED] = 1
    service_name: Annotated[
        str,
        Meta(
            description="The headless Service that gives every replica a DNS name: "
            "<replica>.<serviceName>.<namespace>.svc. Immutable.",
            max_length=63,
        ),
    ] = ""
    pod_management_policy: Annotated[
        PodManagement,
        Meta(
            description="OrderedReady creates and deletes one pod at a time and waits until it is ready. "
            "Parallel creates and deletes all pods at once. Immutable."
        ),
        DEFAULTED,
    ] = PodManagement.ORDERED_READY
    update_strategy: Annotated[
        UpdateStrategy, Meta(description="How a new template is rolled out."), DEFAULTED
    ] = UpdateStrategy()
    revision_history_limit: Annotated[
        int, Meta(description="The number of unused revisions to keep."), DEFAULTED
    ] = 10
    min_ready_seconds: Annotated[
        int, Meta(description="Seconds that a pod must be ready before it is available.", ge=0), DEFAULTED
    ] = 0
    persistent_volume_claim_retention_policy: Annotated[
        RetentionPolicy, Meta(description="What happens to claims that no replica uses."), DEFAULTED
    ] = RetentionPolicy()
    volume_claim_templates: Annotated[
        tuple[JsonObject, ...],
        Verbatim({"type": "array", "x-kubernetes-list-type": "atomic", "items": _NAMED}),
        Meta(
            description="Each replica gets its own claim for each template; the name is also that of the "
            "volume of the pod. Only the requested size can be changed later, and only increased.",
            max_length=64,
        ),
        Rule(
            "self.all(each, has(each.metadata) && has(each.metadata.name))",
            "every claim template needs a metadata.name",
        ),
    ] = ()
    ordinals: Annotated[
        JsonObject | None,
        Verbatim({"type": "object"}),
        Meta(
            description="Accepted for compatibility with StatefulSet and ignored: replicas have no ordinals."
        ),
    ] = None
    cluster: Annotated[Extensions, Meta(description="Fields that a StatefulSet does not have.")] = (
        Extensions()
    )
    rules: ClassVar = (
        Rule(
            "(has(self.serviceName) ? self.serviceName : '') == "
            "(has(oldSelf.serviceName) ? oldSelf.serviceName : '')",
            "serviceName must not be changed",
        ),
        Rule(
            "self.podManagementPolicy == oldSelf.podManagementPolicy",
            "podManagementPolicy must not be changed",
        ),
        Rule(
            f"{_TEMPLATE_NAMES.format('self')} == {_TEMPLATE_NAMES.format('oldSelf')}",
            "only the requested size of volumeClaimTemplates can be changed",
        ),
    )
