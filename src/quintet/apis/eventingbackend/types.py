"""The fields of an EventingBackend, with their bounds, and its declaration to the API server.

What may stand in `spec.config` depends on `spec.type` and is said in `catalog`; that is checked by
`validation`, so that mistakes are shown in the status instead of being refused one by one.
"""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta

from quintet.apis.eventingbackend.catalog import CATALOG
from quintet.apis.eventingbackend.values import LONGEST_VALUE
from quintet.apis.markers import ATOMIC, Keywords, Verbatim, list_map
from quintet.apis.meta import Condition, JsonObject, Object, Resource, Struct
from quintet.apis.resources import AGE, Column, CustomResource
from quintet.apis.wellknown import CONDITION, MOST_CONDITIONS

EVENTINGBACKENDS = Resource("eventing.kyma-project.io", "v1alpha1", "EventingBackend", "eventingbackends")
LABEL: Final = ("kyma-project.io/eventing", "backend")
"""Every backend carries it, so that one selector finds them all."""

FINALIZER: Final = "eventing.kyma-project.io/eventingbackend"

MOST_ENTRIES: Final = 64
MOST_FAULTS: Final = 128
LONGEST_NAME: Final = 256

BACKEND_READY: Final = "Backend Ready"
PUBLISHER_PROXY_READY: Final = "Publisher Proxy Ready"
SUBSCRIPTION_CONTROLLER_READY: Final = "Subscription Controller Ready"
READY: Final = "Ready"
PARTS: Final = (BACKEND_READY, PUBLISHER_PROXY_READY, SUBSCRIPTION_CONTROLLER_READY)
"""The conditions that `eventingReady` is made of, spelled as they are published."""


class ConfigErrors(StrEnum):
    """How the webhooks treat errors in `spec.config`."""

    WARN = "Warn"
    REJECT = "Reject"


class FaultType(StrEnum):
    """The type of an error in `spec.config`."""

    DATA_TYPE = "invalid-data-type-error"
    VALUE = "invalid-value-error"
    UNSUPPORTED = "unsupported-config-error"


class ConfigFault(Struct, frozen=True):
    """One mistake in `spec.config`."""

    type: Annotated[FaultType, Meta(description="What sort of mistake it is.")]
    config: Annotated[str, Meta(description="The key it is about.", max_length=LONGEST_NAME)]
    value: Annotated[
        str, Meta(description="What was written, as text; a secret is not shown.", max_length=LONGEST_VALUE)
    ]
    error: Annotated[str, Meta(description="What is wrong with it.", max_length=1024)]


class Origin(StrEnum):
    """Where a value comes from."""

    USER = "user"
    DEFAULT = "default"


class EffectiveValue(Struct, frozen=True):
    """One key of the configuration that is in use."""

    name: Annotated[str, Meta(description="The key.", max_length=LONGEST_NAME)]
    value: Annotated[
        str,
        Meta(description="Its value, as text; empty if it has none. A secret is not shown.", max_length=512),
    ]
    origin: Annotated[Origin, Meta(description="Whether the user wrote it or it is the default.")]


_CONFIG: Final[JsonObject] = {
    "type": "array",
    "items": {
        "description": "One key and its value.",
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "x-kubernetes-preserve-unknown-fields": True,
    },
}


class EventingBackendSpec(Struct, frozen=True):
    """Which backend, and how it is configured."""

    type: Annotated[
        str,
        Meta(description="The type of the backend."),
        Keywords({"enum": list(CATALOG)}),
    ]
    config: Annotated[
        tuple[JsonObject, ...],
        Verbatim(_CONFIG),
        ATOMIC,
        Meta(
            description="Keys and values for this type of backend: a list of maps with one key each. "
            "Which keys there are: GET /backend/TYPE of the eventing controller.",
            max_length=MOST_ENTRIES,
        ),
    ] = ()


_SPOKEN: Final[JsonObject] = {
    **CONDITION,
    "properties": {
        **CONDITION["properties"],
        "type": {
            "description": "What the condition is about.",
            "type": "string",
            "maxLength": 316,
            "minLength": 1,
        },
        "reason": {
            "description": "Why the condition is as it is.",
            "type": "string",
            "maxLength": 1024,
            "minLength": 1,
        },
    },
}
"""As `metav1.Condition`, except that published types and reasons of this kind hold spaces."""


class EventingBackendStatus(Struct, frozen=True):
    """What became of it."""

    backend_type: Annotated[
        str, Meta(description="The type of the backend that is in use.", max_length=63)
    ] = ""
    eventing_ready: Annotated[
        bool | None, Meta(description="Whether every part is ready for the current spec.")
    ] = None
    observed_generation: Annotated[int, Meta(description="The generation that was acted on.", ge=0)] = 0
    validation_errors: Annotated[
        tuple[ConfigFault, ...],
        ATOMIC,
        Meta(
            description="All mistakes in spec.config. While there are any, the last configuration without "
            "mistakes stays in use.",
            max_length=MOST_FAULTS,
        ),
    ] = ()
    effective_config: Annotated[
        tuple[EffectiveValue, ...],
        list_map("name"),
        Meta(description="The configuration that is in use, with every default.", max_length=MOST_ENTRIES),
    ] = ()
    conditions: Annotated[
        tuple[Condition, ...],
        Verbatim({"type": "array", "items": _SPOKEN}),
        list_map("type"),
        Meta(description="What is known about the parts of the backend.", max_length=MOST_CONDITIONS),
    ] = ()


class EventingBackend(Object, frozen=True, kw_only=True):
    """A backend for events: where they are published, kept and delivered from."""

    spec: EventingBackendSpec
    status: EventingBackendStatus = EventingBackendStatus()


def _part(name: str, condition: str, description: str) -> Column:
    return Column(name, Column.condition(condition).path, description=description)


EVENTINGBACKEND = CustomResource(
    resource=EVENTINGBACKENDS,
    type=EventingBackend,
    short_names=("evb",),
    columns=(
        Column("Backend", ".status.backendType", description="The type of the backend in use."),
        Column("EventingReady", ".status.eventingReady", type="boolean", description="Whether all is ready."),
        _part("SubscriptionControllerReady", SUBSCRIPTION_CONTROLLER_READY, "Whether events are delivered."),
        _part("PublisherProxyReady", PUBLISHER_PROXY_READY, "Whether events are taken in."),
        AGE,
        Column(
            "BackendReady",
            Column.condition(BACKEND_READY).path,
            description="Whether the backend itself is ready.",
            wide=True,
        ),
    ),
    selectable=(".spec.type",),
)
