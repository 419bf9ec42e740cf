"""The types of Quintet, the kind that configures the installation itself.

There is one object per cluster, named `quintet`. Its schema and CEL rules validate it completely, so this
kind has no webhook.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from msgspec import Meta, defstruct, field

from quintet import kinds
from quintet.apis import labels
from quintet.apis.eventingbackend.types import ConfigErrors
from quintet.apis.markers import ATOMIC, DEFAULTED, SET, Rule, list_map
from quintet.apis.meta import Object, Resource, Struct
from quintet.apis.resources import AGE, Column, CustomResource
from quintet.apis.suite.pods import PARTS, AddedMetadata, DisruptionBudget, Pods
from quintet.apis.wellknown import Conditions

QUINTETS: Final = Resource("quintet.dev", "v1alpha1", "Quintet", "quintets", namespaced=False)
NAME: Final = "quintet"
MOST_NAMESPACES: Final = 64
"""Every namespace costs each controller one watch per type."""


CONTROLLERS: Final = kinds.component_names()
if TYPE_CHECKING:
    ControllerName = str
else:
    ControllerName = StrEnum("ControllerName", {name.upper(): name for name in CONTROLLERS})


class Topology(StrEnum):
    """Whether controllers run in separate Deployments or in one."""

    SEPARATE = "Separate"
    COMBINED = "Combined"


class LogLevel(StrEnum):
    """The minimum level of log messages."""

    DEBUG = "Debug"
    INFO = "Info"
    WARNING = "Warning"
    ERROR = "Error"


class NetworkPolicies(StrEnum):
    """Whether NetworkPolicies restrict access to the pods."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class Metrics(StrEnum):
    """To whom the pods serve their metrics."""

    SECURE = "Secure"
    PLAIN = "Plain"


Quantity = Annotated[str, Meta(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]
Image = Annotated[str, Meta(max_length=512)]
Network = Annotated[str, Meta(max_length=64)]
ControllerNames = Annotated[tuple[ControllerName, ...], SET, Meta(max_length=len(CONTROLLERS))]
Replicas = Annotated[int, Meta(ge=1, le=5)]
Workers = Annotated[int, Meta(ge=1, le=64)]


class Resources(Struct, frozen=True):
    """Compute resources of a pod."""

    requests: Annotated[
        dict[str, Quantity],
        Meta(description="Requests by resource name, such as cpu and memory.", max_length=8),
    ] = field(default_factory=dict)
    limits: Annotated[dict[str, Quantity], Meta(description="Limits by resource name.", max_length=8)] = (
        field(default_factory=dict)
    )


class Tuning(Struct, frozen=True):
    """Settings of one controller."""

    replicas: Annotated[
        Replicas | None, Meta(description="Number of pods of this controller. Defaults to spec.replicas.")
    ] = None
    resources: Annotated[
        Resources | None, Meta(description="Resources of its pods. Defaults to spec.resources.")
    ] = None
    log_level: Annotated[
        LogLevel | None, Meta(description="Log level of its pods. Defaults to spec.logLevel.")
    ] = None
    workers: Annotated[
        Workers | None, Meta(description="Number of objects that it reconciles concurrently.")
    ] = None


class JsonServers(Tuning, frozen=True):
    """Settings of the controller of JsonServers."""

    image: Annotated[Image, Meta(description="Image of JsonServers that do not set spec.image.")] = ""


class Eventing(Tuning, frozen=True):
    """Settings of the controller of EventingBackends and Subscriptions."""

    image: Annotated[Image, Meta(description="Image of publishers and dispatchers.")] = ""
    nats_image: Annotated[
        Image, Meta(description="Image of the NATS servers that backends without a URL run.")
    ] = ""
    config_errors: Annotated[
        ConfigErrors | None,
        Meta(description="How webhooks treat errors in spec.config of EventingBackends: Warn or Reject."),
    ] = None
    refused_networks: Annotated[
        tuple[Network, ...],
        SET,
        Meta(description="Networks that EventingBackends must not connect to, besides those always refused.",
             max_length=64),
    ] = ()  # fmt: skip
    allowed_networks: Annotated[
        tuple[Network, ...],
        SET,
        Meta(
            description="Networks that EventingBackends may connect to although they are refused.",
            max_length=64,
        ),
    ] = ()


class OwnSettings(Struct, frozen=True):
    """Settings of the controllers that have options of their own."""

    jsonserver: Annotated[JsonServers, Meta(description="Settings of the jsonserver controller.")] = (
        JsonServers()
    )
    eventing: Annotated[Eventing, Meta(description="Settings of the eventing controllers.")] = Eventing()


if TYPE_CHECKING:
    ControllerSettings = OwnSettings
else:
    ControllerSettings = defstruct(
        "ControllerSettings",
        [
            (name, Annotated[Tuning, Meta(description=f"Settings of the {name} controller.")], Tuning())
            for name in CONTROLLERS
            if name not in OwnSettings.__struct_fields__
        ],
        bases=(OwnSettings,),
        namespace={"__doc__": "Settings of each controller."},
        frozen=True,
    )


LabelKey = Annotated[str, Meta(max_length=317)]
LabelValue = Annotated[str, Meta(max_length=63)]


class LabelOperator(StrEnum):
    """How a requirement compares a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelRequirement(Struct, frozen=True):
    """One requirement of a label selector."""

    key: Annotated[LabelKey, Meta(description="The label.")]
    operator: Annotated[LabelOperator, Meta(description="How the label is compared with the values.")]
    values: Annotated[
        tuple[LabelValue, ...],
        ATOMIC,
        Meta(description="The values for In and NotIn; empty for Exists and DoesNotExist.", max_length=64),
    ] = ()
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            "In and NotIn need values, Exists and DoesNotExist have none",
        ),
    )


class NamespaceSelector(Struct, frozen=True):
    """A label selector of namespaces."""

    match_labels: Annotated[
        dict[str, LabelValue], Meta(description="Labels with these values.", max_length=64)
    ] = field(default_factory=dict)
    match_expressions: Annotated[
        tuple[LabelRequirement, ...], ATOMIC, Meta(description="Further requirements.", max_length=64)
    ] = ()
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.matchLabels) && size(self.matchLabels) > 0) "
            "|| (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
            "an empty selector would match all namespaces; leave it out instead",
        ),
    )

    def matches(self, found: dict[str, str]) -> bool:
        """Return whether a namespace with these labels is selected."""
        requirements = (
            labels.Requirement(each.key, each.operator, each.values) for each in self.match_expressions
        )
        return labels.matches(labels.Selector(self.match_labels, tuple(requirements)), found)


class QuintetSpec(Struct, frozen=True):
    """The desired controllers and their settings."""

    controllers: Annotated[
        ControllerNames | None,
        Meta(
            description="The controllers to run. Defaults to all controllers of this version; an empty list "
            "runs none. Removing one from the list deletes its Deployment and its permissions, but not its "
            "CRDs and not the objects of users.",
        ),
    ] = None
    namespaces: Annotated[
        tuple[Annotated[str, Meta(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")], ...],
        SET,
        Meta(
            description="The namespaces that the controllers watch, in addition to those that "
            "namespaceSelector selects. Objects in others are not touched, and the controllers have "
            "permissions in these namespaces only. Defaults to all namespaces.",
            max_length=MOST_NAMESPACES,
        ),
    ] = ()
    namespace_selector: Annotated[
        NamespaceSelector | None,
        Meta(
            description="Selects namespaces that the controllers watch, by their labels. A namespace whose "
            "labels change is added or removed."
        ),
    ] = None
    topology: Annotated[
        Topology,
        Meta(
            description="Separate runs each controller in its own Deployment, with its own ServiceAccount "
            "and permissions. Combined runs all controllers in one Deployment, for small clusters."
        ),
        DEFAULTED,
    ] = Topology.SEPARATE
    image: Annotated[
        Image, Meta(description="Image of the controllers. Defaults to the image of the operator.")
    ] = ""
    replicas: Annotated[
        int,
        Meta(
            description="Number of pods of each controller. One is the leader, the others stand by.",
            ge=1,
            le=5,
        ),
        DEFAULTED,
    ] = 2
    resources: Annotated[Resources | None, Meta(description="Resources of each pod.")] = None
    log_level: Annotated[LogLevel, Meta(description="Log level of the controllers."), DEFAULTED] = (
        LogLevel.INFO
    )
    network_policies: Annotated[
        NetworkPolicies,
        Meta(description="Enabled restricts ingress to the ports that the pods serve."),
        DEFAULTED,
    ] = NetworkPolicies.ENABLED
    metrics: Annotated[
        Metrics,
        Meta(
            description="Secure serves the metrics of the controllers with TLS, to clients whose bearer "
            "token belongs to a user who may get the path /metrics. Plain serves them to everybody, without "
            "TLS."
        ),
        DEFAULTED,
    ] = Metrics.SECURE
    pods: Annotated[Pods, Meta(description="Settings of the pods of all controllers.")] = Pods()
    service_accounts: Annotated[
        AddedMetadata, Meta(description="Labels and annotations of the ServiceAccounts of controllers.")
    ] = AddedMetadata()
    services: Annotated[
        AddedMetadata, Meta(description="Labels and annotations of the Services of controllers.")
    ] = AddedMetadata()
    pod_disruption_budget: Annotated[
        DisruptionBudget, Meta(description="The PodDisruptionBudget of each controller.")
    ] = DisruptionBudget()
    settings: Annotated[ControllerSettings, Meta(description="Settings of single controllers.")] = (
        ControllerSettings()
    )


class ComponentStatus(Struct, frozen=True, kw_only=True):
    """The observed status of one controller."""

    name: Annotated[str, Meta(description="Name of the controller.", max_length=63)]
    ready: Annotated[
        bool, Meta(description="Whether all its pods run the desired version and are ready.")
    ] = False
    version: Annotated[str, Meta(description="The version that is running.", max_length=128)] = ""
    image: Annotated[
        str, Meta(description="The last image that became ready; a failed upgrade rolls back to it.",
                  max_length=512)
    ] = ""  # fmt: skip
    failed_image: Annotated[
        str, Meta(description="An image that did not become ready and is not tried again.", max_length=512)
    ] = ""
    message: Annotated[
        str, Meta(description="A human-readable description of the current state.", max_length=4096)
    ] = ""


class QuintetStatus(Struct, frozen=True):
    """The observed status of the installation."""

    observed_generation: Annotated[
        int, Meta(description="The generation that was last reconciled.", ge=0)
    ] = 0
    version: Annotated[str, Meta(description="The version of the operator.", max_length=128)] = ""
    ready: Annotated[
        str,
        Meta(description="Number of ready controllers of the desired number, such as 5/5.", max_length=16),
    ] = ""
    components: Annotated[
        tuple[ComponentStatus, ...],
        list_map("name"),
        Meta(description="The status of each desired controller.", max_length=16),
    ] = ()
    conditions: Conditions = ()


class Quintet(Object, frozen=True, kw_only=True):
    """The installation of Quintet in this cluster."""

    spec: QuintetSpec = QuintetSpec()
    status: QuintetStatus = QuintetStatus()


QUINTET = CustomResource(
    resource=QUINTETS,
    type=Quintet,
    parts_from=tuple((f"spec.pods.{field}", name) for field, name in PARTS),
    columns=(
        Column.condition("Available", "Whether every controller is ready."),
        Column.condition("Progressing", "Whether a rollout is in progress."),
        Column.condition("Degraded", "Whether the installation needs attention."),
        Column("Ready", ".status.ready", description="Number of ready controllers."),
        Column("Version", ".status.version"),
        AGE,
        Column(
            "Message",
            '.status.conditions[?(@.type=="Degraded")].message',
            wide=True,
        ),
    ),
    rules=(Rule(f"self.metadata.name == '{NAME}'", f"there is one Quintet per cluster, named '{NAME}'"),),
)
