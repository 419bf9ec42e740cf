"""The fields of a JsonServer, with their bounds, and its declaration to the API server."""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, field

from quintet.apis.casconfig.spec import EmbeddedConfig
from quintet.apis.markers import DEFAULTED, FREE_FORM, Rule
from quintet.apis.meta import JsonObject, Object, Resource, Struct
from quintet.apis.resources import AGE, Column, CustomResource, Scale
from quintet.apis.wellknown import Conditions

JSONSERVERS = Resource("example.com", "v1", "JsonServer", "jsonservers")
FINALIZER: Final = "example.com/jsonserver"
PORT: Final = 3000

MAX_CONFIG_BYTES: Final = 1024 * 1024
"""What a ConfigMap takes, and what is left for one field in an object that etcd takes."""

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
    """The short answer to: is it as I asked?"""

    SYNCED = "Synced"
    ERROR = "Error"


LabelValue = Annotated[str, Meta(max_length=63)]
AnnotationValue = Annotated[str, Meta(max_length=65536)]


class OverlayMetadata(Struct, frozen=True):
    """Labels and annotations for the pods."""

    labels: Annotated[
        dict[str, LabelValue],
        Meta(description="Added to the labels of the pods; those that select them must stay.", max_length=64),
    ] = field(default_factory=dict)
    annotations: Annotated[
        dict[str, AnnotationValue], Meta(description="Added to the annotations of the pods.", max_length=64)
    ] = field(default_factory=dict)


class Overlay(Struct, frozen=True):
    """Anything about the pods that has no field of its own."""

    metadata: Annotated[OverlayMetadata, Meta(description="Labels and annotations for the pods.")] = (
        OverlayMetadata()
    )
    spec: Annotated[
        JsonObject,
        FREE_FORM,
        Meta(
            description="Laid over the pod spec: lists of named things (containers, volumes, env) merge by "
            "name, other lists are replaced. The container 'json-server', its mount at /data and the volume "
            "behind it must stay."
        ),
    ] = field(default_factory=dict)


class JsonServerSpec(Struct, frozen=True):
    """What to serve, and how."""

    json_config: Annotated[
        str,
        Meta(
            description="The data to serve: one JSON object whose keys are the resources. Kept byte for byte "
            "as written here. At most 1 MiB, also once its quotes are escaped.",
            max_length=MAX_CONFIG_BYTES,
        ),
    ]
    replicas: Annotated[
        int,
        Meta(description="How many pods serve the data.", ge=0, le=10_000),
        Rule("self >= 0", INVALID_REPLICAS),
        DEFAULTED,
    ] = 1
    image: Annotated[
        str,
        Meta(description="The image to run; left out, it is the one that the operator was set up with.",
             max_length=512),
    ] = ""  # fmt: skip
    storage: Annotated[
        Storage,
        Meta(
            description="ReadOnly: writes are answered with an error. Ephemeral: clients may write; every "
            "pod keeps its own copy until it restarts."
        ),
        DEFAULTED,
    ] = Storage.READ_ONLY
    template: Annotated[Overlay, Meta(description="Laid over the pod template.")] = Overlay()
    cas_config: Annotated[
        EmbeddedConfig | None,
        Meta(
            description="The policies of one config, applied to the ConfigMap, the "
            "Service and the Deployment of this object before they are written."
        ),
    ] = None


class JsonServerStatus(Struct, frozen=True):
    """What became of it."""

    state: Annotated[State | None, Meta(description="Synced, or Error.")] = None
    message: Annotated[str, Meta(description="What went well or wrong, for people.", max_length=4096)] = ""
    observed_generation: Annotated[int, Meta(description="The generation that was acted on.", ge=0)] = 0
    replicas: Annotated[int, Meta(description="Pods that there are.", ge=0)] = 0
    ready_replicas: Annotated[int, Meta(description="Pods that serve.", ge=0)] = 0
    selector: Annotated[str, Meta(description="Finds the pods, for autoscalers.", max_length=256)] = ""
    config_hash: Annotated[str, Meta(description="Names the data that the children hold.", max_length=64)] = (
        ""
    )
    url: Annotated[str, Meta(description="Where the data is served, inside the cluster.", max_length=256)] = (
        ""
    )
    conditions: Conditions = ()


class JsonServer(Object, frozen=True, kw_only=True):
    """A mock JSON API: a json-server that serves the data written in the object."""

    spec: JsonServerSpec
    status: JsonServerStatus = JsonServerStatus()


JSONSERVER = CustomResource(
    resource=JSONSERVERS,
    type=JsonServer,
    short_names=("js",),
    columns=(
        Column("State", ".status.state", description="Whether the children are as wanted."),
        Column.condition("Ready", "Whether all replicas serve the current data."),
        Column("Replicas", ".status.replicas", type="integer", description="Pods that there are."),
        AGE,
        Column("Message", ".status.message", wide=True),
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
