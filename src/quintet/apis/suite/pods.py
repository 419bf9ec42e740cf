"""What a Quintet adds to the pods of controllers, and to the objects beside them."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from msgspec import Meta, field

from quintet.apis.markers import ATOMIC, FREE_FORM, Rule
from quintet.apis.meta import JsonObject, Struct


class ImagePullPolicy(StrEnum):
    """When the kubelet pulls an image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


LabelValue = Annotated[str, Meta(max_length=63)]
AnnotationValue = Annotated[str, Meta(max_length=4096)]
Labels = Annotated[
    dict[str, LabelValue],
    Meta(max_length=32),
    Rule(
        "!self.exists(key, key in ['app.kubernetes.io/name', 'app.kubernetes.io/part-of', "
        "'app.kubernetes.io/component', 'app.kubernetes.io/managed-by'])",
        "Quintet sets the labels app.kubernetes.io/name, part-of, component and managed-by itself",
    ),
]
Annotations = Annotated[dict[str, AnnotationValue], Meta(max_length=32)]
Argument = Annotated[
    str,
    Meta(max_length=1024, pattern="^--"),
    Rule(
        "!self.matches('^--(controllers|instance|namespace|flavour|metrics|[a-z]+-address)(=|$)')",
        "Quintet sets --controllers, --instance, --namespace, --flavour, --metrics and all addresses itself",
    ),
]
Object = Annotated[JsonObject, FREE_FORM]
Amount = Annotated[
    int | str,
    Rule(
        "type(self) == int ? self >= 0 : self.matches('^([0-9]|[1-9][0-9]|100)%$')",
        "must be a number, or a percentage from 0% to 100%",
    ),
]


class Pods(Struct, frozen=True):
    """Settings of the pods of all controllers."""

    labels: Annotated[Labels, Meta(description="Labels to add to the pods.")] = field(default_factory=dict)
    annotations: Annotated[Annotations, Meta(description="Annotations to add to the pods.")] = field(
        default_factory=dict
    )
    image_pull_secrets: Annotated[
        tuple[Object, ...],
        ATOMIC,
        Meta(description="Secrets in the namespace of the operator with credentials of registries.",
             max_length=16),
    ] = ()  # fmt: skip
    image_pull_policy: Annotated[
        ImagePullPolicy | None,
        Meta(description="When nodes pull the image. Defaults to IfNotPresent."),
    ] = None
    node_selector: Annotated[
        dict[str, LabelValue], Meta(description="Labels of the nodes to run on.", max_length=32)
    ] = field(default_factory=dict)
    tolerations: Annotated[
        tuple[Object, ...], ATOMIC, Meta(description="Taints of nodes that are tolerated.", max_length=32)
    ] = ()
    affinity: Annotated[
        JsonObject, FREE_FORM, Meta(description="Affinity to nodes and other pods.")
    ] = field(default_factory=dict)  # fmt: skip
    topology_spread_constraints: Annotated[
        tuple[Object, ...],
        ATOMIC,
        Meta(
            description="How pods are spread over nodes and zones. A constraint without labelSelector counts "
            "the pods of the same controller. Defaults to a spread over nodes, where that is possible.",
            max_length=16,
        ),
    ] = ()
    priority_class_name: Annotated[
        str, Meta(description="The PriorityClass of the pods.", max_length=253)
    ] = ""  # fmt: skip
    env: Annotated[
        tuple[Object, ...],
        ATOMIC,
        Meta(description="Environment variables to add, such as those of a proxy.", max_length=64),
        Rule(
            "!self.exists(each, each.name == 'POD_NAMESPACE' || each.name.startsWith('QUINTET_'))",
            "Quintet sets POD_NAMESPACE and QUINTET_… itself; images have fields of their own",
        ),
    ] = ()
    args: Annotated[
        tuple[Argument, ...],
        ATOMIC,
        Meta(description="Arguments to add to `quintet run`, which lists them with --help.", max_length=32),
    ] = ()


class AddedMetadata(Struct, frozen=True):
    """Labels and annotations to add to objects."""

    labels: Annotated[Labels, Meta(description="Labels to add.")] = field(default_factory=dict)
    annotations: Annotated[Annotations, Meta(description="Annotations to add.")] = field(default_factory=dict)


class DisruptionBudget(Struct, frozen=True):
    """How many pods of each controller may be evicted at once."""

    max_unavailable: Annotated[
        Amount | None, Meta(description="How many pods may be evicted at once. Defaults to 1.")
    ] = None
    min_available: Annotated[
        Amount | None, Meta(description="How many pods must remain.")
    ] = None  # fmt: skip
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.maxUnavailable) || !has(self.minAvailable)",
            "maxUnavailable and minAvailable must not both be set",
        ),
    )


_CORE: Final = "io.k8s.api.core.v1"
PARTS: Final = (
    ("imagePullSecrets[]", f"{_CORE}.LocalObjectReference"),
    ("tolerations[]", f"{_CORE}.Toleration"),
    ("affinity", f"{_CORE}.Affinity"),
    ("topologySpreadConstraints[]", f"{_CORE}.TopologySpreadConstraint"),
    ("env[]", f"{_CORE}.EnvVar"),
)
"""The fields of `Pods` that have the schema of a Kubernetes type."""
