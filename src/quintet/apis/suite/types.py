"""The types of Quintet, field by field. The definition is made from them by `manifests.crd`.

There is one object per cluster, named `quintet`; a rule of the API server sees to it, so this kind
needs no webhook: whatever else has to hold is said by its schema.
"""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, field

from quintet.apis.markers import DEFAULTED, SET, Rule, list_map
from quintet.apis.meta import Object, Resource, Struct
from quintet.apis.resources import AGE, Column, CustomResource
from quintet.apis.wellknown import Conditions

QUINTETS: Final = Resource("quintet.dev", "v1alpha1", "Quintet", "quintets", namespaced=False)
NAME: Final = "quintet"


class ControllerName(StrEnum):
    """What can be run."""

    JSONSERVER = "jsonserver"
    EVENTING = "eventing"
    STATEFULCLUSTER = "statefulcluster"
    CASCONFIG = "casconfig"
    CHECKUP = "checkup"


CONTROLLERS: Final = tuple(ControllerName)


class Topology(StrEnum):
    """How controllers are spread over processes."""

    SEPARATE = "Separate"
    COMBINED = "Combined"


class LogLevel(StrEnum):
    """How much a process says."""

    DEBUG = "Debug"
    INFO = "Info"
    WARNING = "Warning"
    ERROR = "Error"


class NetworkPolicies(StrEnum):
    """Whether strangers are kept away from our pods."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class ConfigErrors(StrEnum):
    """What webhooks do about mistakes in the config of an EventingBackend."""

    WARN = "Warn"
    REJECT = "Reject"


Quantity = Annotated[str, Meta(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]
Image = Annotated[str, Meta(max_length=512)]
Network = Annotated[str, Meta(max_length=64)]
Replicas = Annotated[int, Meta(ge=1, le=5)]
Workers = Annotated[int, Meta(ge=1, le=64)]


class Resources(Struct, frozen=True):
    """What a pod asks for and may use."""

    requests: Annotated[
        dict[str, Quantity], Meta(description="Asked for, such as cpu and memory.", max_length=8)
    ] = field(default_factory=dict)
    limits: Annotated[dict[str, Quantity], Meta(description="Never exceeded.", max_length=8)] = field(
        default_factory=dict
    )


class Tuning(Struct, frozen=True):
    """What can be set for one controller alone."""

    replicas: Annotated[
        Replicas | None, Meta(description="Pods of this controller; left out, as spec.replicas.")
    ] = None
    resources: Annotated[Resources | None, Meta(description="Of its pods; left out, as spec.resources.")] = (
        None
    )
    log_level: Annotated[LogLevel | None, Meta(description="Of its pods; left out, as spec.logLevel.")] = None
    workers: Annotated[Workers | None, Meta(description="How many objects it works on at once.")] = None


class JsonServers(Tuning, frozen=True):
    """Settings of the controller of JsonServers."""

    image: Annotated[Image, Meta(description="What JsonServers run unless they say otherwise.")] = ""


class Eventing(Tuning, frozen=True):
    """Settings of the controller of EventingBackends and Subscriptions."""

    image: Annotated[Image, Meta(description="What publishers and dispatchers run.")] = ""
    nats_image: Annotated[Image, Meta(description="What backends run that bring a server of their own.")] = ""
    config_errors: Annotated[
        ConfigErrors | None,
        Meta(description="What webhooks do about mistakes in spec.config: Warn, or Reject."),
    ] = None
    refused_networks: Annotated[
        tuple[Network, ...],
        SET,
        Meta(description="Where no EventingBackend may be, in addition to what is never allowed.",
             max_length=64),
    ] = ()  # fmt: skip
    allowed_networks: Annotated[
        tuple[Network, ...],
        SET,
        Meta(description="Where an EventingBackend may be all the same.", max_length=64),
    ] = ()


class Settings(Struct, frozen=True):
    """What can be set for each controller."""

    jsonserver: Annotated[JsonServers, Meta(description="Of the controller of JsonServers.")] = JsonServers()
    eventing: Annotated[
        Eventing, Meta(description="Of the controller of EventingBackends and Subscriptions.")
    ] = Eventing()
    statefulcluster: Annotated[Tuning, Meta(description="Of the controller of StatefulClusters.")] = Tuning()
    casconfig: Annotated[Tuning, Meta(description="Of the controller of CASConfigs.")] = Tuning()
    checkup: Annotated[Tuning, Meta(description="Of the controller of Checkups.")] = Tuning()


class QuintetSpec(Struct, frozen=True):
    """Which controllers run, and how."""

    controllers: Annotated[
        tuple[ControllerName, ...],
        SET,
        Meta(
            description="The controllers that run; left out, all that this version has. One that is taken "
            "out of the list loses its workload and its rights; its definitions and the objects of users "
            "stay.",
            max_length=5,
        ),
    ] = ()
    namespaces: Annotated[
        tuple[Annotated[str, Meta(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")], ...],
        SET,
        Meta(
            description="The namespace that the controllers look at, at most one; left out, all of them.",
            max_length=1,
        ),
    ] = ()
    topology: Annotated[
        Topology,
        Meta(
            description="Separate: a Deployment, an account and rights for each controller. "
            "Combined: one for all, for small clusters."
        ),
        DEFAULTED,
    ] = Topology.SEPARATE
    image: Annotated[
        Image, Meta(description="What the controllers run; left out, what the operator itself runs.")
    ] = ""
    replicas: Annotated[
        int,
        Meta(description="Pods of each controller; one works, the others stand by.", ge=1, le=5),
        DEFAULTED,
    ] = 2
    resources: Annotated[Resources | None, Meta(description="What each pod asks for and may use.")] = None
    log_level: Annotated[LogLevel, Meta(description="How much the controllers say."), DEFAULTED] = (
        LogLevel.INFO
    )
    network_policies: Annotated[
        NetworkPolicies,
        Meta(description="Enabled: only the ports of webhooks, health and discovery can be reached."),
        DEFAULTED,
    ] = NetworkPolicies.ENABLED
    settings: Annotated[Settings, Meta(description="What is set for one controller alone.")] = Settings()


class ComponentStatus(Struct, frozen=True, kw_only=True):
    """How one controller is doing."""

    name: Annotated[str, Meta(description="Which controller.", max_length=63)]
    ready: Annotated[bool, Meta(description="Whether all its pods are of the wanted version and serve.")] = (
        False
    )
    version: Annotated[str, Meta(description="The version that serves.", max_length=128)] = ""
    image: Annotated[
        str, Meta(description="The last image that served: where an upgrade that fails goes back to.",
                  max_length=512)
    ] = ""  # fmt: skip
    failed_image: Annotated[
        str, Meta(description="An image that did not come up and is not tried again.", max_length=512)
    ] = ""
    message: Annotated[str, Meta(description="What is going on, for people.", max_length=4096)] = ""


class QuintetStatus(Struct, frozen=True):
    """What runs."""

    observed_generation: Annotated[int, Meta(description="The generation that was acted on.", ge=0)] = 0
    version: Annotated[str, Meta(description="The version of the operator.", max_length=128)] = ""
    ready: Annotated[str, Meta(description="How many controllers are ready, of how many.", max_length=16)] = (
        ""
    )
    components: Annotated[
        tuple[ComponentStatus, ...],
        list_map("name"),
        Meta(description="Each controller that is asked for.", max_length=16),
    ] = ()
    conditions: Conditions = ()


class Quintet(Object, frozen=True, kw_only=True):
    """The installation of Quintet in this cluster."""

    spec: QuintetSpec = QuintetSpec()
    status: QuintetStatus = QuintetStatus()


QUINTET = CustomResource(
    resource=QUINTETS,
    type=Quintet,
    columns=(
        Column.condition("Available", "Whether every controller serves."),
        Column.condition("Progressing", "Whether something is being changed."),
        Column.condition("Degraded", "Whether somebody has to look."),
        Column("Ready", ".status.ready", description="Controllers that are ready."),
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
