"""The spec of a StatefulCluster: what of a StatefulSetSpec the controller decides by.

The whole schema is taken from Kubernetes (`manifests.openapi`); bounds, defaults, rules and descriptions
that are written here are laid over it. The templates pass through as they were written.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from msgspec import Meta

from quintet.apis.casconfig.spec import EmbeddedConfig
from quintet.apis.labels import Selector
from quintet.apis.markers import DEFAULTED, Rule, Verbatim
from quintet.apis.meta import JsonObject, Struct


class PodManagement(StrEnum):
    """Whether pods are made and removed one by one."""

    ORDERED_READY = "OrderedReady"
    PARALLEL = "Parallel"


class Update(StrEnum):
    """Who replaces pods of an older revision: the controller, or whoever deletes them."""

    ROLLING_UPDATE = "RollingUpdate"
    ON_DELETE = "OnDelete"


class Retention(StrEnum):
    """What becomes of claims that no replica uses any more."""

    RETAIN = "Retain"
    DELETE = "Delete"


class RollingUpdate(Struct, frozen=True):
    """How far and how fast an update goes."""

    partition: Annotated[
        int,
        Meta(description="So many replicas, the oldest first, keep the revision that they have.", ge=0),
        DEFAULTED,
    ] = 0
    max_unavailable: Annotated[
        int | str,
        Meta(
            description="So many replicas may be unavailable during an update: a number, or a percentage of "
            "the replicas."
        ),
        Rule(
            "type(self) == int ? self > 0 : self.matches('^([1-9][0-9]?|100)%$')",
            "must be a number above 0, or a percentage from 1% to 100%",
        ),
        DEFAULTED,
    ] = 1


class UpdateStrategy(Struct, frozen=True):
    """How a new template reaches the pods."""

    type: Annotated[
        Update,
        Meta(
            description="RollingUpdate: pods of an older revision are replaced, the newest first. "
            "OnDelete: a pod gets the new revision when somebody deletes it."
        ),
        DEFAULTED,
    ] = Update.ROLLING_UPDATE
    rolling_update: Annotated[RollingUpdate, Meta(description="For RollingUpdate only.")] = RollingUpdate()
    rules: ClassVar = (
        Rule(
            "self.type != 'OnDelete' || !has(self.rollingUpdate)", "rollingUpdate is for RollingUpdate only"
        ),
    )


class RetentionPolicy(Struct, frozen=True):
    """What becomes of the claims of a removed replica, and of all when the object is deleted."""

    when_deleted: Annotated[
        Retention, Meta(description="When the StatefulCluster itself is deleted."), DEFAULTED
    ] = Retention.RETAIN
    when_scaled: Annotated[
        Retention, Meta(description="When a replica is removed because fewer are wanted."), DEFAULTED
    ] = Retention.RETAIN


class Extensions(Struct, frozen=True):
    """What a StatefulSet does not have."""

    cas_config: Annotated[
        EmbeddedConfig | None,
        Meta(
            description="The policies of one config, applied to the pods and to new "
            "claims of this object before they are written. A change of it is a new revision."
        ),
    ] = None


# What is laid over the items of the claim templates: their names become those of volumes, and labels.
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
    """The spec of a StatefulSet: the same fields, with replicas that have random names and no ordinals."""

    selector: Annotated[
        Selector,
        Meta(description="Finds the pods. It must match the labels of the template and never changes."),
        Rule("self == oldSelf", "selector must not be changed"),
        Rule(
            "(has(self.matchLabels) && size(self.matchLabels) > 0) "
            "|| (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
            "selector must select something: an empty one would mean every pod",
        ),
    ]
    template: Annotated[
        JsonObject,
        Verbatim({"type": "object"}),
        Meta(description="The pods: everything that a pod template of a StatefulSet may hold."),
        Rule(
            "!has(self.spec) || !has(self.spec.restartPolicy) || self.spec.restartPolicy in ['', 'Always']",
            "spec.restartPolicy must be Always: a replica is meant to run",
        ),
        Rule(
            "!has(self.spec) || !has(self.spec.activeDeadlineSeconds)",
            "spec.activeDeadlineSeconds must not be set: a replica is meant to run",
        ),
    ]
    replicas: Annotated[int, Meta(description="How many replicas there are.", ge=0), DEFAULTED] = 1
    service_name: Annotated[
        str,
        Meta(
            description="The headless Service that gives every replica a name in DNS: "
            "<replica>.<serviceName>.<namespace>.svc. It never changes.",
            max_length=63,
        ),
    ] = ""
    pod_management_policy: Annotated[
        PodManagement,
        Meta(
            description="OrderedReady: one pod at a time, and the next when it is ready. Parallel: missing "
            "pods are made and superfluous ones removed at once. It never changes."
        ),
        DEFAULTED,
    ] = PodManagement.ORDERED_READY
    update_strategy: Annotated[
        UpdateStrategy, Meta(description="How a new template reaches the pods."), DEFAULTED
    ] = UpdateStrategy()
    revision_history_limit: Annotated[
        int, Meta(description="So many revisions that no pod uses are kept."), DEFAULTED
    ] = 10
    min_ready_seconds: Annotated[
        int, Meta(description="A pod is available when it has been ready for so long.", ge=0), DEFAULTED
    ] = 0
    persistent_volume_claim_retention_policy: Annotated[
        RetentionPolicy, Meta(description="What becomes of claims that no replica uses."), DEFAULTED
    ] = RetentionPolicy()
    volume_claim_templates: Annotated[
        tuple[JsonObject, ...],
        Verbatim({"type": "array", "x-kubernetes-list-type": "atomic", "items": _NAMED}),
        Meta(
            description="Every replica has a claim of its own for each; the name is that of a volume of the "
            "pod. Of these only the requested size can change later, and only grow.",
            max_length=64,
        ),
        Rule(
            "self.all(each, has(each.metadata) && has(each.metadata.name))",
            "every claim template needs a metadata.name: claims and volumes are named after it",
        ),
    ] = ()
    ordinals: Annotated[
        JsonObject | None,
        Verbatim({"type": "object"}),
        Meta(description="Accepted, as in a StatefulSet, and ignored: replicas have no ordinals."),
    ] = None
    cluster: Annotated[Extensions, Meta(description="What a StatefulSet does not have.")] = Extensions()
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
            "of volumeClaimTemplates only the requested size can change",
        ),
    )
