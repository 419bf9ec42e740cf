"""The types of EventingBackend.

The options of `spec.config` depend on `spec.type`. `validation` checks them, not the schema, so that the
status can list all errors at once.
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
"""A label of every EventingBackend, for selectors."""

FINALIZER: Final = "eventing.kyma-project.io/eventingbackend"

MOST_ENTRIES: Final = 64
MOST_FAULTS: Final = 128
MOST_FORMER: Final = 16
LONGEST_NAME: Final = 256

BACKEND_READY: Final = "Backend Ready"
PUBLISHER_PROXY_READY: Final = "Publisher Proxy Ready"
SUBSCRIPTION_CONTROLLER_READY: Final = "Subscription Controller Ready"
READY: Final = "Ready"
PARTS: Final = (BACKEND_READY, PUBLISHER_PROXY_READY, SUBSCRIPTION_CONTROLLER_READY)
"""The conditions that `eventingReady` summarizes, in their published spelling."""


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
    """One error in `spec.config`."""

    type: Annotated[FaultType, Meta(description="The type of the error.")]
    config: Annotated[str, Meta(description="The name of the option.", max_length=LONGEST_NAME)]
    value: Annotated[
        str,
        Meta(description="The invalid value as a string. Secrets are not shown.", max_length=LONGEST_VALUE),
    ]
    error: Annotated[str, Meta(description="Why the value is invalid.", max_length=1024)]


class Origin(StrEnum):
    """The origin of a value."""

    USER = "user"
    DEFAULT = "default"


class EffectiveValue(Struct, frozen=True):
    """One option of the effective configuration."""

    name: Annotated[str, Meta(description="The name of the option.", max_length=LONGEST_NAME)]
    value: Annotated[
        str,
        Meta(
            description="The value as a string; empty if there is none. Secrets are not shown.",
            max_length=512,
        ),
    ]
    origin: Annotated[Origin, Meta(description="Whether the user set the value or it is the default.")]


class SubjectPrefixes(Struct, frozen=True):
    """The prefixes that determine the subject of an event."""

    stream_subject_prefix: Annotated[
        str, Meta(description="The value of streamSubjectPrefix.", max_length=LONGEST_NAME)
    ]
    event_type_prefix: Annotated[
        str, Meta(description="The value of eventTypePrefix.", max_length=LONGEST_NAME)
    ]


_CONFIG: Final[JsonObject] = {
    "type": "array",
    "items": {
        "description": "One option and its value.",
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "x-kubernetes-preserve-unknown-fields": True,
    },
}


class EventingBackendSpec(Struct, frozen=True):
    """The type of the backend and its configuration."""

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
            description="Options of this backend type: a list of maps with one key each. GET /backend/TYPE "
            "of the discovery API lists the options.",
            max_length=MOST_ENTRIES,
        ),
    ] = ()


_SPOKEN: Final[JsonObject] = {
    **CONDITION,
    "properties": {
        **CONDITION["properties"],
        "type": {
            "description": "The type of the condition.",
            "type": "string",
            "maxLength": 316,
            "minLength": 1,
        },
        "reason": {
            "description": "The reason of the last transition.",
            "type": "string",
            "maxLength": 1024,
            "minLength": 1,
        },
    },
}
"""Like `metav1.Condition`, but the published types and reasons of this kind contain spaces."""


class EventingBackendStatus(Struct, frozen=True):
    """The observed status of an EventingBackend."""

    backend_type: Annotated[str, Meta(description="The type of the backend in use.", max_length=63)] = ""
    eventing_ready: Annotated[
        bool | None, Meta(description="Whether every part is ready for the current spec.")
    ] = None
    observed_generation: Annotated[int, Meta(description="The generation last reconciled.", ge=0)] = 0
    validation_errors: Annotated[
        tuple[ConfigFault, ...],
        ATOMIC,
        Meta(
            description="All errors in spec.config. While there are any, the last valid configuration stays "
            "in use.",
            max_length=MOST_FAULTS,
        ),
    ] = ()
    effective_config: Annotated[
        tuple[EffectiveValue, ...],
        list_map("name"),
        Meta(description="The configuration in use, including defaults.", max_length=MOST_ENTRIES),
    ] = ()
    former_subjects: Annotated[
        tuple[SubjectPrefixes, ...],
        ATOMIC,
        Meta(
            description="Prefixes of earlier configurations. The stream and its consumers keep their "
            "subjects until no publisher uses them and no event with such a subject is undelivered.",
            max_length=MOST_FORMER,
        ),
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
