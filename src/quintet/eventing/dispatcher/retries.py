"""Events that wait for a retry, in a stream of their own.

An event that the server redelivers with a delay keeps its place among the events in flight, so a few that
fail again and again would stop a Subscription. They are moved to the retry stream instead, one message per
attempt, which contains the number of attempts and the time of the next one.
"""

import contextlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final, NamedTuple

from quintet.apis.subscription import Subscription
from quintet.clock import Clock
from quintet.eventing.decide import naming
from quintet.eventing.streams import retry_stream
from quintet.nats.errors import NatsError
from quintet.nats.jetstream import MESSAGE_ID, Delivery, JetStream, PullConsumer

SUBJECT: Final = "Quintet-Subject"
TRIES: Final = "Quintet-Tries"
DUE: Final = "Quintet-Due"
STORED: Final = "Quintet-Stored"
"""Headers of a waiting event: its subject, the attempts so far, the Unix time of the next one, and the Unix
time at which it was stored in the stream of events."""

PUBLISH_TIMEOUT: Final = 5.0
BATCH: Final = 256
MAX_WAIT: Final = 3600.0


class InFlight(NamedTuple):
    """An event that is being delivered, from the stream of events or from the retry stream."""

    delivery: Delivery
    subject: str
    """Its subject in the stream of events."""
    tries: int
    """The number of this attempt, from 1."""
    has_waited: bool
    """Whether it comes from the retry stream."""

    @property
    def sequence(self) -> tuple[bool, int]:
        """Identifies its message in both streams."""
        return self.has_waited, self.delivery.stream_sequence


def first_attempts(delivery: Delivery) -> InFlight:
    """Return an event of the stream of events."""
    return InFlight(delivery, delivery.message.subject, delivery.delivered, False)


def later_attempt(delivery: Delivery) -> InFlight:
    """Return an event of the retry stream."""
    headers = delivery.message.headers or {}
    tries = headers.get(TRIES, "")
    return InFlight(delivery, headers.get(SUBJECT, ""), int(tries) + 1 if tries.isdecimal() else 1, True)


def stored_at(headers: Mapping[str, str] | None) -> datetime | None:
    """Return when a waiting event was stored in the stream of events; None if that is unknown."""
    try:
        return datetime.fromtimestamp(float((headers or {}).get(STORED, "")), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def message_id(subscription: Subscription, event: InFlight) -> str:
    """Return an id by which the server drops a copy that is stored again because the process died.

    It depends on the content, because a recreated stream has the same sequence numbers.
    """
    message = event.delivery.message
    content = blake2b(repr(sorted((message.headers or {}).items())).encode(), digest_size=8)
    content.update(message.payload)
    waited, sequence = event.sequence
    return f"{subscription.metadata.uid}/{waited:d}/{sequence}/{content.hexdigest()}"


def event_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers of an event without those that the NATS server would interpret."""
    return {name: value for name, value in (headers or {}).items() if not name.lower().startswith("nats-")}


class Retries:
    """The retry stream of a backend."""

    def __init__(self, jetstream: JetStream, stream: str, clock: Clock) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._clock = clock

    async def wait(self, subscription: Subscription, event: InFlight, delay: float) -> None:
        """Store an event until its next attempt; raises `NatsError`, also if there is no room."""
        due = self._clock.now().timestamp() + delay
        headers = {
            **event_headers(event.delivery.message.headers),
            SUBJECT: event.subject,
            TRIES: str(event.tries),
            DUE: f"{due:.3f}",
            STORED: (event.delivery.message.headers or {}).get(STORED, f"{event.delivery.stored_at:.3f}"),
            MESSAGE_ID: message_id(subscription, event),
        }
        subject = naming.retry_subject(self._stream, naming.consumer_name(subscription.metadata))
        await self._jetstream.publish(subject, event.delivery.message.payload, headers, PUBLISH_TIMEOUT)

    def pull(
        self, on_due: Callable[[str, Delivery], None], on_error: Callable[[NatsError], None]
    ) -> PullConsumer:
        """Pass events that are due to a callback, with the name of the consumer of their Subscription."""

        def receive(delivery: Delivery) -> None:
            wait = self._seconds_until_due(delivery.message.headers or {})
            if wait <= 0:
                on_due(delivery.message.subject.rpartition(".")[2], delivery)
                return
            with contextlib.suppress(NatsError):
                delivery.nak(min(wait, MAX_WAIT))

        return self._jetstream.pull(
            retry_stream(self._stream),
            naming.RETRY_CONSUMER,
            BATCH,
            receive,
            expires=60.0,
            heartbeat=15.0,
            on_error=on_error,
        )

    def _seconds_until_due(self, headers: Mapping[str, str]) -> float:
        try:
            return float(headers.get(DUE, "0")) - self._clock.now().timestamp()
        except ValueError:
            return 0.0
