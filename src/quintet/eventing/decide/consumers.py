"""The desired JetStream consumer of a Subscription, and how it differs from the existing one. Pure.

An existing consumer is updated in place. Fields that JetStream cannot change, such as the deliver policy,
keep their value.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal, cast

import msgspec
from msgspec import UNSET

from quintet.apis.eventingbackend import Effective, EventingBackend, SubjectPrefixes
from quintet.apis.subscription import Subscription
from quintet.apis.subscription.wildcards import cover
from quintet.eventing.decide import naming
from quintet.eventing.decide.choice import choose_backend
from quintet.nats.config import SECOND, ConsumerConfig, ConsumerInfo

ACK_SECONDS: Final = 30
"""Seconds after which the server redelivers an event that is neither acknowledged nor in progress."""
MAX_PULL_BATCH: Final = 512
"""The maximum number of events that one dispatcher has in flight for one Subscription."""
_DeliverPolicy = Literal["all", "last", "last_per_subject", "new"]
_COMPARED: Final = ("ack_policy", "ack_wait", "max_deliver", "max_ack_pending", "filter_subjects")


def max_in_flight(subscription: Subscription, default: int) -> int:
    """Return the limit of events in flight to the sink of a Subscription."""
    return subscription.spec.max_in_flight or default


def pull_batch(allowed: int) -> int:
    """Return the batch size of a dispatcher's pull request, given the limit of events in flight.

    It is larger than the limit, so that a request is always open: that shows the controller that a dispatcher
    is active. The server enforces the limit.
    """
    return min(2 * allowed + 2, MAX_PULL_BATCH)


def desired_consumer(
    subscription: Subscription,
    backend: EventingBackend,
    config: Effective,
    former: Sequence[SubjectPrefixes] | None = None,
) -> ConsumerConfig:
    """Return the consumer of a valid Subscription in the stream of its backend.

    It has the subjects of the configuration and of all former prefixes, by default those in the status:
    publishers that have not moved yet, and events that wait, have them.
    """
    if former is None:
        former = backend.status.former_subjects
    return ConsumerConfig(
        durable_name=naming.consumer_name(subscription.metadata),
        # The catalog allows exactly these values.
        deliver_policy=cast(_DeliverPolicy, config.text("consumerDeliverPolicy")),
        ack_policy="explicit",
        ack_wait=ACK_SECONDS * SECOND,
        # The dispatcher limits the attempts: the server would silently drop an event after the last one.
        max_deliver=-1,
        max_ack_pending=max_in_flight(subscription, config.integer("maxInFlightMessages")),
        # JetStream rejects overlapping subjects; dispatchers drop what no type matches.
        filter_subjects=cover(
            subject
            for prefixes in (config.subject_prefixes, *former)
            for subject in naming.subscription_subjects(
                subscription, prefixes.stream_subject_prefix, prefixes.event_type_prefix
            )
        ),
        metadata={naming.BACKEND: backend.metadata.uid, naming.SUBSCRIPTION: str(subscription.key)},
    )


def consumer_update(found: ConsumerConfig, desired: ConsumerConfig) -> ConsumerConfig | None:
    """Return the update that brings a consumer to the desired configuration; None if it is up to date."""
    if all(getattr(found, name) == getattr(desired, name) for name in _COMPARED) and _has_metadata(
        found, desired
    ):
        return None
    # The server rejects updates of these fields.
    return msgspec.structs.replace(
        desired,
        deliver_policy=found.deliver_policy,
        opt_start_seq=found.opt_start_seq,
        replay_policy=found.replay_policy,
        num_replicas=found.num_replicas,
        max_waiting=found.max_waiting,
    )


def has_handled(info: ConsumerInfo, sequence: int) -> bool:
    """Return whether a consumer has handled all messages up to a sequence number of the stream."""
    return info.num_pending + info.num_ack_pending == 0 or info.ack_floor.stream_seq >= sequence


def has_active_pull(info: ConsumerInfo) -> bool:
    """Return whether a dispatcher has an open pull request, or is at its limit of events in flight."""
    return info.num_waiting > 0 or info.num_ack_pending >= MAX_PULL_BATCH


def find_orphans(consumers: Iterable[ConsumerInfo], backend_uid: str, known: Collection[str]) -> list[str]:
    """Return the names of consumers of a backend that no Subscription needs."""
    return [info.name for info in consumers if owner_uid(info) == backend_uid and info.name not in known]


def needs_consumer(
    subscription: Subscription, backend: EventingBackend, backends: Sequence[EventingBackend]
) -> bool:
    """Return whether a Subscription may need its consumer in a backend, among those of its namespace.

    A consumer is needed until another backend has one for the Subscription.
    """
    in_use = subscription.status.backend
    if not in_use.types or in_use.name == backend.metadata.name:
        return True
    choice = choose_backend(subscription, backends)
    return isinstance(choice, EventingBackend) and choice.key == backend.key


def _has_metadata(found: ConsumerConfig, desired: ConsumerConfig) -> bool:
    """Return whether all desired metadata is present; the server adds keys of its own."""
    present = found.metadata if found.metadata is not UNSET else {}
    expected = desired.metadata if desired.metadata is not UNSET else {}
    return all(present.get(name) == value for name, value in expected.items())


def owner_uid(info: ConsumerInfo) -> str:
    """Return the uid of the backend that created a consumer; empty if it was not a backend."""
    if info.config is None or info.config.metadata is UNSET:
        return ""
    return info.config.metadata.get(naming.BACKEND, "")
