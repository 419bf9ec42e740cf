"""Status of a Subscription, from its backend, consumer and sink."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from quintet.apis.eventingbackend import EventingBackend, ready_now
from quintet.apis.fields import FieldError
from quintet.apis.meta import Condition, find_condition
from quintet.apis.subscription import (
    BackendInUse,
    Consumer,
    EventType,
    Subscription,
    SubscriptionStatus,
    event_types,
)
from quintet.apis.subscription.dead_letters import DeadLetterStatus
from quintet.apis.subscription.types import READY, SINK_LEAVES, Backlog
from quintet.apis.text import truncate

_LONGEST = 4096


class Reason(StrEnum):
    """Reasons of the Ready condition. What to do about each: docs/subscription.md."""

    DELIVERING = "Delivering"
    INVALID_SPEC = "InvalidSpec"
    BACKEND_NOT_FOUND = "BackendNotFound"
    BACKEND_UNCLEAR = "BackendUnclear"
    BACKEND_NOT_READY = "BackendNotReady"
    BY_EVENT_MESH = "DeliveryByEventMesh"
    CONSUMER_FAILED = "ConsumerFailed"
    NOBODY_PULLS = "DispatcherNotPulling"
    SINK_NOT_FOUND = "SinkNotFound"
    SINK_LEAVES = SINK_LEAVES
    PAUSED = "Paused"
    DELETING = "ConsumerNotRemoved"


class DeliveryProblem(NamedTuple):
    """Why events are not delivered."""

    reason: Reason
    message: str


class Observation(NamedTuple):
    """What is known about a Subscription."""

    backend: EventingBackend | None = None
    consumer: str = ""
    """Name of the consumer, once it has the desired configuration."""
    problem: DeliveryProblem | None = None
    dead_letters: DeadLetterStatus | None = None
    """The dead letters; None if they cannot be read."""
    backlog: Backlog | None = None
    """The events that are not delivered yet; None if that is unknown."""


def invalid_spec(errors: Sequence[FieldError]) -> Observation:
    """Return the observation for an invalid spec. Events stay in the stream."""
    return Observation(problem=DeliveryProblem(Reason.INVALID_SPEC, "; ".join(map(str, errors))))


def backend_problem(backend: EventingBackend) -> DeliveryProblem | None:
    """Return why a backend delivers no events; None if it does."""
    if backend.spec.type != "nats":
        return DeliveryProblem(
            Reason.BY_EVENT_MESH,
            f"EventingBackend '{backend.metadata.name}' is of type {backend.spec.type}: "
            "set up the delivery in Event Mesh itself, or use a backend of type nats",
        )
    if ready_now(backend.status, backend.metadata.generation):
        return None
    ready = find_condition(backend.status.conditions, READY)
    why = ready.message if ready is not None and ready.message else "it has no status yet"
    return DeliveryProblem(
        Reason.BACKEND_NOT_READY, f"EventingBackend '{backend.metadata.name}' is not ready: {why}"
    )


def consumer_problem(backend: EventingBackend, error: str) -> DeliveryProblem:
    """Return the problem for a failed request to the NATS server; it is retried."""
    return DeliveryProblem(
        Reason.CONSUMER_FAILED, f"the server of EventingBackend '{backend.metadata.name}' reported: {error}"
    )


def pause_problem(subscription: Subscription) -> DeliveryProblem | None:
    """Return that the delivery is paused; None if it is not."""
    if not subscription.spec.paused:
        return None
    return DeliveryProblem(Reason.PAUSED, "spec.paused is true: events wait in the stream")


def no_dispatcher_problem(backend: EventingBackend) -> DeliveryProblem:
    """Return the problem for a consumer that no dispatcher pulls from."""
    return DeliveryProblem(
        Reason.NOBODY_PULLS,
        f"no dispatcher of EventingBackend '{backend.metadata.name}' pulls from the consumer yet; "
        "events wait in the stream",
    )


def status_of(subscription: Subscription, found: Observation) -> SubscriptionStatus:
    """Return the status, without the transition times of its conditions. It always lists the event types."""
    types = event_types(subscription.spec)
    return SubscriptionStatus(
        ready=found.problem is None,
        observed_generation=subscription.metadata.generation,
        types=types,
        backend=_in_use(subscription, found, types),
        backlog=found.backlog or subscription.status.backlog,
        dead_letters=found.dead_letters or subscription.status.dead_letters,
        conditions=(_ready(subscription, found),),
    )


def age(subscription: Subscription, now: datetime) -> float:
    """Return the seconds since the last change of Ready: the older, the less often it is reconciled."""
    ready = find_condition(subscription.status.conditions, READY)
    if ready is None or not ready.last_transition_time:
        return 0.0
    return (now - datetime.fromisoformat(ready.last_transition_time)).total_seconds()


def deleting_status(subscription: Subscription, waits_for: str) -> SubscriptionStatus:
    """Return the status while the consumer of a deleted Subscription cannot be removed."""
    old = subscription.status
    message = f"the consumer of this Subscription is not removed yet: {waits_for}"
    return SubscriptionStatus(
        ready=False,
        observed_generation=old.observed_generation,
        types=old.types,
        backend=old.backend,
        backlog=old.backlog,
        dead_letters=old.dead_letters,
        conditions=(Condition(READY, "False", Reason.DELETING, truncate(message, _LONGEST)),),
    )


def _in_use(subscription: Subscription, found: Observation, types: Sequence[EventType]) -> BackendInUse:
    """Return the backend and consumer in use. The old one is kept until there is another."""
    known = subscription.status.backend
    if found.backend is None or (known.types and not found.consumer):
        return known
    consumers = tuple(Consumer(each.original_type, found.consumer) for each in types)
    return BackendInUse(
        found.backend.metadata.name, found.backend.spec.type, consumers if found.consumer else ()
    )


def _ready(subscription: Subscription, found: Observation) -> Condition:
    if found.problem is not None:
        return Condition(READY, "False", found.problem.reason, truncate(found.problem.message, _LONGEST))
    count = len(subscription.spec.types)
    types = f"{count} types" if count > 1 else "1 type"
    return Condition(
        READY, "True", Reason.DELIVERING, f"events of {types} are delivered to {subscription.spec.sink}"
    )
