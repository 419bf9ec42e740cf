"""The fields of a Subscription, with their bounds, and its declaration to the API server."""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta

from quintet.apis.markers import ATOMIC, DEFAULTED, Rule
from quintet.apis.meta import Object, Resource, Struct
from quintet.apis.resources import AGE, Column, CustomResource
from quintet.apis.wellknown import Conditions

SUBSCRIPTIONS = Resource("eventing.kyma-project.io", "v1alpha2", "Subscription", "subscriptions")
FINALIZER: Final = "eventing.kyma-project.io/subscription"

READY: Final = "Ready"
SINK_LEAVES: Final = "SinkLeavesCluster"
"""The reason of a sink that must not be called. Dispatchers see no Services, so the status tells them."""

MOST_TYPES: Final = 128
LONGEST_TYPE: Final = 256
MOST_IN_FLIGHT: Final = 10_000
IN_FLIGHT_RULE: Final = f"must be a number from 1 to {MOST_IN_FLIGHT}"
_NUMBER: Final = "^([1-9][0-9]{0,3}|10000)$"
_IN_BOUNDS: Final = f"type(self) == int ? self >= 1 && self <= {MOST_IN_FLIGHT} : self.matches('{_NUMBER}')"


class TypeMatching(StrEnum):
    """How the types of a subscription are compared with those of events."""

    STANDARD = "standard"
    EXACT = "exact"


class SubscriptionConfig(Struct, frozen=True):
    """What this subscription wants otherwise than its backend."""

    max_in_flight_messages: Annotated[
        int | str | None,
        Meta(
            description="How many events may be under way to the sink at a time, from 1 to 10000; a number, "
            "or a text that holds one. Left out, it is what the backend says."
        ),
        Rule(_IN_BOUNDS, IN_FLIGHT_RULE),
    ] = None


class SubscriptionSpec(Struct, frozen=True):
    """Which events, and where to."""

    sink: Annotated[
        str,
        Meta(
            description="Where events are delivered: the address of a Service in the same namespace, such as "
            "http://orders.shop.svc.cluster.local:8080/events.",
            max_length=1024,
        ),
    ]
    source: Annotated[str, Meta(description="Where the events come from.", max_length=256)]
    types: Annotated[
        tuple[Annotated[str, Meta(max_length=LONGEST_TYPE)], ...],
        ATOMIC,
        Meta(description="The types of the events, such as order.created.v1.", max_length=MOST_TYPES),
    ]
    type_matching: Annotated[
        TypeMatching,
        Meta(
            description="standard: characters that a subject cannot hold are taken out of the types, as "
            "publishers do. exact: the types are used as they are and must hold none of them."
        ),
        DEFAULTED,
    ] = TypeMatching.STANDARD
    config: Annotated[
        SubscriptionConfig, Meta(description="What this subscription wants otherwise than its backend.")
    ] = SubscriptionConfig()
    backend: Annotated[
        str,
        Meta(
            description="The EventingBackend to use, in the same namespace. Left out, it is the only one "
            "there, or the one that is labelled as the default.",
            max_length=253,
        ),
    ] = ""

    @property
    def max_in_flight(self) -> int | None:
        """How many events may be under way at a time, if it says so."""
        given = self.config.max_in_flight_messages
        return None if given is None else int(given)


class EventType(Struct, frozen=True):
    """A type as it was written and as it is looked for."""

    original_type: Annotated[str, Meta(description="As it was written.", max_length=LONGEST_TYPE)]
    clean_type: Annotated[str, Meta(description="As it is part of a subject.", max_length=LONGEST_TYPE)]


class Consumer(Struct, frozen=True):
    """What delivers one type of events."""

    original_type: Annotated[str, Meta(description="The type as it was written.", max_length=LONGEST_TYPE)]
    consumer_name: Annotated[str, Meta(description="The durable consumer in the stream.", max_length=64)]


class BackendInUse(Struct, frozen=True):
    """The backend that delivers."""

    name: Annotated[str, Meta(description="The EventingBackend in use.", max_length=253)] = ""
    type: Annotated[str, Meta(description="Its type.", max_length=63)] = ""
    types: Annotated[
        tuple[Consumer, ...],
        ATOMIC,
        Meta(description="What delivers each type.", max_length=MOST_TYPES),
    ] = ()


class SubscriptionStatus(Struct, frozen=True):
    """What became of it."""

    ready: Annotated[bool | None, Meta(description="Whether events are delivered.")] = None
    observed_generation: Annotated[int, Meta(description="The generation that was acted on.", ge=0)] = 0
    types: Annotated[
        tuple[EventType, ...],
        ATOMIC,
        Meta(description="The types as they are looked for.", max_length=MOST_TYPES),
    ] = ()
    backend: Annotated[BackendInUse, Meta(description="The backend that delivers.")] = BackendInUse()
    conditions: Conditions = ()


class Subscription(Object, frozen=True, kw_only=True):
    """Events of some types from one source, delivered to one sink."""

    spec: SubscriptionSpec
    status: SubscriptionStatus = SubscriptionStatus()


SUBSCRIPTION = CustomResource(
    resource=SUBSCRIPTIONS,
    type=Subscription,
    short_names=("evsub",),
    columns=(
        Column("Ready", ".status.ready", type="boolean", description="Whether events are delivered."),
        Column("Backend", ".status.backend.name", description="The EventingBackend in use."),
        AGE,
        Column("Sink", ".spec.sink", wide=True),
    ),
    selectable=(".spec.backend",),
)
