"""The durable consumer of a Subscription: what it should be, and whether one is. Pure.

The controller keeps consumers as this says; the dispatcher pulls from them. A consumer that is there
is changed in place, and what cannot be changed (where it began) stays as it was made.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal, cast

import msgspec
from msgspec import UNSET

from quintet.apis.eventingbackend import Effective, EventingBackend
from quintet.apis.subscription import Subscription
from quintet.eventing.decide import naming
from quintet.eventing.decide.choice import chosen
from quintet.nats.config import SECOND, ConsumerConfig, ConsumerInfo

ACK_SECONDS: Final = 30
"""How long the server waits for news of an event before it hands it out again."""
MOST_PULLED: Final = 512
"""Events that one dispatcher has in hand for one Subscription, whatever may be under way in all."""
_DeliverPolicy = Literal["all", "last", "last_per_subject", "new"]
_COMPARED: Final = ("ack_policy", "ack_wait", "max_deliver", "max_ack_pending", "filter_subjects")


def in_flight(subscription: Subscription, usual: int) -> int:
    """How many events may be under way to its sink at a time."""
    return subscription.spec.max_in_flight or usual


def pulled(allowed: int) -> int:
    """How many events a dispatcher asks for at a time, where so many may be under way.

    More than that, so that it always asks for something: by this the controller knows that somebody
    delivers. The server holds back what is too much.
    """
    return min(2 * allowed + 2, MOST_PULLED)


def wanted(subscription: Subscription, backend: EventingBackend, config: Effective) -> ConsumerConfig:
    """The consumer of a valid Subscription in the stream of its backend."""
    prefix, complete = config.text("streamSubjectPrefix"), config.text("eventTypePrefix")
    return ConsumerConfig(
        durable_name=naming.consumer_name(subscription.metadata),
        # The catalog allows exactly these.
        deliver_policy=cast(_DeliverPolicy, config.text("consumerDeliverPolicy")),
        ack_policy="explicit",
        ack_wait=ACK_SECONDS * SECOND,
        # The dispatcher counts the tries: the server would drop an event after the last one in silence.
        max_deliver=-1,
        max_ack_pending=in_flight(subscription, config.integer("maxInFlightMessages")),
        filter_subjects=tuple(naming.subjects_of(subscription, prefix, complete)),
        metadata={naming.BACKEND: backend.metadata.uid, naming.SUBSCRIPTION: str(subscription.key)},
    )


def correction(found: ConsumerConfig, want: ConsumerConfig) -> ConsumerConfig | None:
    """What to send so that a consumer is as wanted; None if it is."""
    if all(getattr(found, name) == getattr(want, name) for name in _COMPARED) and _marked(found, want):
        return None
    # Where it began and how it is kept cannot be changed: the server would refuse everything.
    return msgspec.structs.replace(
        want,
        deliver_policy=found.deliver_policy,
        opt_start_seq=found.opt_start_seq,
        replay_policy=found.replay_policy,
        num_replicas=found.num_replicas,
        max_waiting=found.max_waiting,
    )


def somebody_pulls(info: ConsumerInfo) -> bool:
    """Whether a dispatcher asks for events, or has its hands full of them."""
    return info.num_waiting > 0 or info.num_ack_pending >= MOST_PULLED


def orphans(consumers: Iterable[ConsumerInfo], backend_uid: str, known: Collection[str]) -> list[str]:
    """Consumers that were made for this backend and that no Subscription needs there."""
    return [info.name for info in consumers if owner(info) == backend_uid and info.name not in known]


def needs(subscription: Subscription, backend: EventingBackend, backends: Sequence[EventingBackend]) -> bool:
    """Whether a Subscription may need its consumer in a backend, among those of its namespace.

    Until another one has a consumer for it, none is given up.
    """
    in_use = subscription.status.backend
    if not in_use.types or in_use.name == backend.metadata.name:
        return True
    choice = chosen(subscription, backends)
    return isinstance(choice, EventingBackend) and choice.key == backend.key


def _marked(found: ConsumerConfig, want: ConsumerConfig) -> bool:
    """The server adds marks of its own."""
    there = found.metadata if found.metadata is not UNSET else {}
    asked = want.metadata if want.metadata is not UNSET else {}
    return all(there.get(name) == value for name, value in asked.items())


def owner(info: ConsumerInfo) -> str:
    """The uid of the backend that a consumer was made for; empty if it is somebody else's."""
    if info.config is None or info.config.metadata is UNSET:
        return ""
    return info.config.metadata.get(naming.BACKEND, "")
