"""The types of JsonServer."""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, field

from quintet.apis.casconfig.spec import EmbeddedConfig
from quintet.apis.markers import ATOMIC, DEFAULTED, FREE_FORM, Rule
from quintet.apis.meta import JsonObject, Object, Resource, Struct
from quintet.apis.resources import AGE, Column, CustomResource, Scale
from quintet.apis.wellknown import Conditions

JSONSERVERS = Resource("example.com", "v1", "JsonServer", "jsonservers")
FINALIZER: Final = "example.com/jsonserver"
PORT: Final = 3000

MOST_DELAY: Final = 60_000
"""Milliseconds."""

MAX_CONFIG_BYTES: Final = 1024 * 1024
"""The limit of a ConfigMap, and of one field in an object that fits into etcd."""

INVALID_NAME: Final = "Invalid name: must start with 'app-'."
INVALID_REPLICAS: Final = "Invalid replicas number."
INVALID_CONFIG: Final = "Invalid JSON configuration."
NAME_RULE: Final = (
    "Invalid name: must be at most 63 lower-case letters, digits and '-', and end with a letter or digit, "
    "because the Service has the same name."
)


class Storage(StrEnum):
    """Whether clients can change the data."""

    READ_ONLY = "ReadOnly"
    EPHEMERAL = "Ephemeral"


class State(StrEnum):
    """The state of the children."""

    SYNCED = "Synced"
    ERROR = "Error"


LabelValue = Annotated[str, Meta(max_length=63)]
AnnotationValue = Annotated[str, Meta(max_length=65536)]


class JsonServerTemplateMetadata(Struct, frozen=True):
    """Labels and annotations of the pods."""

    labels: Annotated[
        dict[str, LabelValue],
        Meta(description="Labels to add to the pods. The selector label must not change.", max_length=64),
    ] = field(default_factory=dict)
    annotations: Annotated[
        dict[str, AnnotationValue], Meta(description="Annotations to add to the pods.", max_length=64)
    ] = field(default_factory=dict)


class JsonServerTemplate(Struct, frozen=True):
    """A patch of the pod template."""

    metadata: Annotated[
        JsonServerTemplateMetadata, Meta(description="Labels and annotations of the pods.")
    ] = JsonServerTemplateMetadata()
    spec: Annotated[
        JsonObject,
        FREE_FORM,
        Meta(
            description="A patch of the pod spec. Lists of named items (containers, volumes, env) are merged "
            "by name, other lists are replaced. The container 'json-server', its mount at /data and the "
            "volume of that mount must not be replaced."
        ),
    ] = field(default_factory=dict)


class ServiceType(StrEnum):
    """Where clients reach the Service from."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class ServiceOptions(Struct, frozen=True):
    """How clients reach the data."""

    type: Annotated[ServiceType, Meta(description="The type of the Service. The default is ClusterIP.")] = (
        ServiceType.CLUSTER_IP
    )
    annotations: Annotated[
        dict[str, AnnotationValue],
        Meta(description="Annotations to add to the Service, such as those for a load balancer.",
             max_length=64),
    ] = field(default_factory=dict)  # fmt: skip
    node_port: (
        Annotated[
            int,
            Meta(
                description="The port on every node, for the types NodePort and LoadBalancer. By default the "
                "cluster chooses one.",
                ge=1,
                le=65535,
            ),
        ]
        | None
    ) = None


class Delay(Struct, frozen=True):
    """How long answers wait."""

    milliseconds: Annotated[
        int, Meta(description="How long each answer waits, or the shortest time.", ge=0, le=MOST_DELAY)
    ]
    max_milliseconds: (
        Annotated[
            int,
            Meta(
                description="The longest time: each answer waits at random, from milliseconds to this.",
                ge=0,
                le=MOST_DELAY,
            ),
        ]
        | None
    ) = None


class Fault(Struct, frozen=True):
    """Answers that fail."""

    status: Annotated[int, Meta(description="The HTTP status of these answers.", ge=400, le=599)]
    percent: Annotated[int, Meta(description="How many percent of the answers have it.", ge=1, le=100)]


class Route(Struct, frozen=True):
    """A rewritten path."""

    path: Annotated[
        str,
        Meta(
            description="The requests to rewrite: a path in which :name is one segment and * anything, also "
            "nothing.",
            max_length=512,
        ),
    ]
    target: Annotated[
        str,
        Meta(
            description="The path that answers them; :name and $1, $2, … stand for the parts of path.",
            max_length=512,
        ),
    ]


class JsonServerSpec(Struct, frozen=True):
    """The data to serve, and how to serve it."""

    json_config: Annotated[
        str,
        Meta(
            description="The data to serve: a JSON object whose keys are the resources. It is stored byte "
            "for byte. At most 1 MiB, also after escaping its quotes.",
            max_length=MAX_CONFIG_BYTES,
        ),
    ]
    replicas: Annotated[
        int,
        Meta(description="The desired number of pods.", ge=0, le=10_000),
        Rule("self >= 0", INVALID_REPLICAS),
        DEFAULTED,
    ] = 1
    image: Annotated[
        str,
        Meta(description="The image of json-server. Defaults to the image of the operator's configuration.",
             max_length=512),
    ] = ""  # fmt: skip
    storage: Annotated[
        Storage,
        Meta(
            description="ReadOnly rejects writes of clients. Ephemeral accepts them; every pod keeps its own "
            "copy of the data until it restarts."
        ),
        DEFAULTED,
    ] = Storage.READ_ONLY
    read_only: Annotated[
        bool | None,
        Meta(description="Reject writes of clients, with 403. The default is true for ReadOnly storage."),
    ] = None
    id_field: Annotated[
        str,
        Meta(
            description="The field that identifies an item, by default 'id'.",
            max_length=64,
            pattern="^[A-Za-z_][A-Za-z0-9_-]*$",
        ),
    ] = "id"
    cors: Annotated[
        bool, Meta(description="Let web pages of any origin read the data. The default is true.")
    ] = True
    routes: Annotated[
        tuple[Route, ...],
        ATOMIC,
        Meta(description="Paths to rewrite, one after the other, each as the one before left it.",
             max_length=100),
    ] = ()  # fmt: skip
    delay: Annotated[Delay | None, Meta(description="How long answers wait; by default not at all.")] = None
    faults: Annotated[
        tuple[Fault, ...],
        ATOMIC,
        Meta(description="Random answers that fail, together at most 100 percent.", max_length=20),
    ] = ()
    body_limit: Annotated[
        int | str | None,
        Meta(
            description="The largest body of a request, such as 100Ki; larger ones get 413. At most 10Mi, "
            "which is also the default."
        ),
    ] = None
    service: Annotated[ServiceOptions, Meta(description="How clients reach the data.")] = ServiceOptions()
    template: Annotated[JsonServerTemplate, Meta(description="A patch of the pod template.")] = (
        JsonServerTemplate()
    )
    cas_config: Annotated[
        EmbeddedConfig | None,
        Meta(
            description="Policies of a CASConfig that are applied to the ConfigMap, the Service and the "
            "Deployment of this object before they are written."
        ),
    ] = None


class JsonServerStatus(Struct, frozen=True):
    """The observed status of a JsonServer."""

    state: Annotated[State | None, Meta(description="Synced or Error.")] = None
    message: Annotated[
        str, Meta(description="A human-readable explanation of the state.", max_length=4096)
    ] = ""
    observed_generation: Annotated[int, Meta(description="The generation last reconciled.", ge=0)] = 0
    replicas: Annotated[int, Meta(description="The number of pods.", ge=0)] = 0
    ready_replicas: Annotated[int, Meta(description="The number of ready pods.", ge=0)] = 0
    selector: Annotated[
        str, Meta(description="The label selector of the pods, for autoscalers.", max_length=256)
    ] = ""
    config_hash: Annotated[
        str, Meta(description="The hash of the data that the children have.", max_length=64)
    ] = ""
    url: Annotated[str, Meta(description="The URL of the data inside the cluster.", max_length=256)] = ""
    external_url: Annotated[
        str,
        Meta(description="The URL of the data at the address of the load balancer, once it has one.",
             max_length=320),
    ] = ""  # fmt: skip
    node_port: Annotated[
        int, Meta(description="The port of the data on every node, if it has one.", ge=0)
    ] = 0
    conditions: Conditions = ()


class JsonServer(Object, frozen=True, kw_only=True):
    """A mock JSON API: a json-server that serves the data in the object."""

    spec: JsonServerSpec
    status: JsonServerStatus = JsonServerStatus()


_READY = '.status.conditions[?(@.type=="Ready")].{}'

JSONSERVER = CustomResource(
    resource=JSONSERVERS,
    type=JsonServer,
    short_names=("js",),
    columns=(
        Column("State", ".status.state", description="Whether the children are up to date."),
        Column.condition("Ready", "Whether all replicas serve the current data."),
        Column("Reason", _READY.format("reason"), description="Why, in one word."),
        Column("Replicas", ".status.replicas", type="integer", description="The number of pods."),
        AGE,
        Column("Message", _READY.format("message"), wide=True),
        Column("URL", ".status.url", wide=True),
    ),
    scale=Scale(),
    selectable=(".status.state",),
    rules=(
        Rule("self.metadata.name.startsWith('app-')", INVALID_NAME),
        Rule(
            "size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            NAME_RULE,
        ),
    ),
)
