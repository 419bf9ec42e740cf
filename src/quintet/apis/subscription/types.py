"""The types of Subscription."""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta

from quintet.apis.markers import ATOMIC, DEFAULTED, FREE_FORM, Rule
from quintet.apis.meta import JsonObject, Object, Resource, Struct
from quintet.apis.resources import AGE, Column, CustomResource
from quintet.apis.subscription.dead_letters import DeadLetterStatus
from quintet.apis.subscription.delivery import DeliveryPolicy
from quintet.apis.subscription.filters import MOST_FILTERS
from quintet.apis.wellknown import Conditions

SUBSCRIPTIONS = Resource("eventing.kyma-project.io", "v1alpha2", "Subscription", "subscriptions")
FINALIZER: Final = "eventing.kyma-project.io/subscription"

READY: Final = "Ready"
SINK_LEAVES: Final = "SinkLeavesCluster"
"""The reason of a sink that must not be called; dispatchers cannot read Services, so they read the status."""

MOST_TYPES: Final = 128
LONGEST_TYPE: Final = 256
MOST_IN_FLIGHT: Final = 10_000
IN_FLIGHT_RULE: Final = f"must be a number from 1 to {MOST_IN_FLIGHT}"
_NUMBER: Final = "^([1-9][0-9]{0,3}|10000)$"
_IN_BOUNDS: Final = f"type(self) == int ? self >= 1 && self <= {MOST_IN_FLIGHT} : self.matches('{_NUMBER}')"


class TypeMatching(StrEnum):
    """How the types of a Subscription are matched with the types of events."""

    STANDARD = "standard"
    EXACT = "exact"
    WILDCARD = "wildcard"


class SubscriptionConfig(Struct, frozen=True):
    """Settings that override those of the backend."""

    max_in_flight_messages: Annotated[
        int | str | None,
        Meta(
            description="The maximum number of events in delivery to the sink at a time, from 1 to 10000, as "
            "a number or a numeric string. Defaults to the setting of the backend."
        ),
        Rule(_IN_BOUNDS, IN_FLIGHT_RULE),
    ] = None


class SubscriptionSpec(Struct, frozen=True):
    """The events to deliver, and their sink."""

    sink: Annotated[
        str,
        Meta(
            description="The URL that events are delivered to: a Service in the same namespace, such as "
            "http://orders.shop.svc.cluster.local:8080/events.",
            max_length=1024,
        ),
    ]
    source: Annotated[str, Meta(description="The source of the events.", max_length=256)]
    types: Annotated[
        tuple[Annotated[str, Meta(max_length=LONGEST_TYPE)], ...],
        ATOMIC,
        Meta(description="The types of the events, such as order.created.v1.", max_length=MOST_TYPES),
    ]
    type_matching: Annotated[
        TypeMatching,
        Meta(
            description="standard removes characters that are not allowed in a NATS subject from the types, "
            "as publishers do. exact uses the types unchanged; they must not contain such characters. "
            "wildcard is the same, but a segment may be *, which stands for any one segment, and the last "
            "one >, which stands for one or more."
        ),
        DEFAULTED,
    ] = TypeMatching.STANDARD
    config: Annotated[
        SubscriptionConfig, Meta(description="Settings that override those of the backend.")
    ] = SubscriptionConfig()
    delivery: Annotated[
        DeliveryPolicy, Meta(description="How events are delivered. Defaults to the settings of the backend.")
    ] = DeliveryPolicy()
    filters: Annotated[
        tuple[Annotated[JsonObject, FREE_FORM], ...],
        ATOMIC,
        Meta(
            description="Which of these events are delivered: those that fit all filters. Each is an object "
            "with one dialect of the CloudEvents Subscriptions API: exact, prefix or suffix with attributes "
            "and their values, all or any with a list of filters, or not with a filter.",
            max_length=MOST_FILTERS,
        ),
    ] = ()
    paused: Annotated[
        bool,
        Meta(
            description="Whether the delivery is paused. Events wait in the stream meanwhile, within its "
            "limits."
        ),
    ] = False
    backend: Annotated[
        str,
        Meta(
            description="The EventingBackend to use, in the same namespace. Defaults to the only one in the "
            "namespace, or to the one that is labelled as the default.",
            max_length=253,
        ),
    ] = ""

    @property
    def max_in_flight(self) -> int | None:
        """The maximum number of events in delivery at a time, if set."""
        given = self.config.max_in_flight_messages
        return None if given is None else int(given)


class EventType(Struct, frozen=True):
    """An event type of the spec, and its form in a subject."""

    original_type: Annotated[str, Meta(description="The type as in the spec.", max_length=LONGEST_TYPE)]
    clean_type: Annotated[str, Meta(description="The type as in the subject.", max_length=LONGEST_TYPE)]


class Consumer(Struct, frozen=True):
    """The consumer of one event type."""

    original_type: Annotated[str, Meta(description="The type as in the spec.", max_length=LONGEST_TYPE)]
    consumer_name: Annotated[str, Meta(description="The durable consumer in the stream.", max_length=64)]


class BackendInUse(Struct, frozen=True):
    """The backend in use."""

    name: Annotated[str, Meta(description="The EventingBackend in use.", max_length=253)] = ""
    type: Annotated[str, Meta(description="The type of the backend.", max_length=63)] = ""
    types: Annotated[
        tuple[Consumer, ...],
        ATOMIC,
        Meta(description="The consumer of each event type.", max_length=MOST_TYPES),
    ] = ()


class Backlog(Struct, frozen=True):
    """The events of a Subscription that are not delivered yet."""

    pending: Annotated[int, Meta(description="Events that wait in the stream.", ge=0)] = 0
    in_flight: Annotated[int, Meta(description="Events that dispatchers have.", ge=0)] = 0
    retrying: Annotated[int, Meta(description="Events that wait for another attempt.", ge=0)] = 0
    oldest: Annotated[
        str, Meta(description="When the oldest of them was stored in the stream.", max_length=40)
    ] = ""


class SubscriptionStatus(Struct, frozen=True):
    """The observed status of a Subscription."""

    ready: Annotated[bool | None, Meta(description="Whether events are delivered.")] = None
    observed_generation: Annotated[int, Meta(description="The generation last reconciled.", ge=0)] = 0
    types: Annotated[
        tuple[EventType, ...],
        ATOMIC,
        Meta(description="The event types and their form in subjects.", max_length=MOST_TYPES),
    ] = ()
    backend: Annotated[BackendInUse, Meta(description="The backend in use.")] = BackendInUse()
    backlog: Annotated[Backlog, Meta(description="The events that are not delivered yet.")] = Backlog()
    dead_letters: Annotated[DeadLetterStatus, Meta(description="The events that could not be delivered.")] = (
        DeadLetterStatus()
    )
    conditions: Conditions = ()


class Subscription(Object, frozen=True, kw_only=True):
    """Delivers events of some types from one source to one sink."""

    spec: SubscriptionSpec
    status: SubscriptionStatus = SubscriptionStatus()


SUBSCRIPTION = CustomResource(
    resource=SUBSCRIPTIONS,
    type=Subscription,
    short_names=("evsub",),
    columns=(
        Column("Ready", ".status.ready", type="boolean", description="Whether events are delivered."),
        Column("Backend", ".status.backend.name", description="The EventingBackend in use."),
        Column(
            "Pending",
            ".status.backlog.pending",
            type="integer",
            description="Events that wait in the stream.",
        ),
        AGE,
        Column("Sink", ".spec.sink", wide=True),
        Column(
            "Oldest",
            ".status.backlog.oldest",
            type="date",
            description="The age of the oldest event that is not delivered yet.",
            wide=True,
        ),
    ),
    selectable=(".spec.backend",),
)
