"""The backend `nats`: publishes events to a JetStream stream.

Events are stored in binary mode, in which they are delivered. The message id is derived from source and id of
the event, so that JetStream drops duplicates.
"""

import logging
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from quintet.clock import Clock
from quintet.eventing.decide.cloudevents import CloudEvent
from quintet.eventing.decide.headers import ORIGINAL_TYPE, TYPE
from quintet.eventing.publisher.decide.subjects import SubjectMapper
from quintet.eventing.publisher.pending_acks import Done, PendingAcks
from quintet.eventing.settings import NatsSettings
from quintet.nats.client import NatsClient
from quintet.nats.credentials import from_files
from quintet.nats.errors import Disconnected, NatsError
from quintet.nats.jetstream import EXPECTED_STREAM, MESSAGE_ID
from quintet.nats.options import NatsOptions

logger = logging.getLogger(__name__)

_FIRST_BACKOFF: Final = 0.2


def message_id(event: CloudEvent) -> str:
    """Return the message id of an event, unique per source and id: attributes contain no zero byte."""
    return blake2b(f"{event.source}\0{event.id}".encode(), digest_size=16).hexdigest()


class NatsBackend:
    """Publishes events to one stream and waits for acknowledgements."""

    def __init__(
        self, settings: NatsSettings, event_type_prefix: str, seconds: float, name: str, clock: Clock
    ) -> None:
        self._clock = clock
        self._stream = settings.stream
        self._subjects = SubjectMapper(settings.subject_prefix, event_type_prefix)
        self._acks = PendingAcks(seconds, clock)
        self._client: NatsClient | None = None
        self._problem = "not connected to NATS yet"
        self._options = NatsOptions(
            settings.url,
            from_files(settings.credentials) if settings.credentials else None,
            name,
            settings.max_reconnects,
            settings.reconnect_seconds,
        )
        self.destination = self._options.address

    def check(self, event: CloudEvent) -> None:
        """Raise `NoSubjectError` if the event has no valid subject."""
        self._subjects.find(event.source, event.type)

    def send(self, event: CloudEvent, tracing: Mapping[str, str], done: Done) -> None:
        """Publish an event and call back when it is stored; raises if it cannot be sent."""
        subject, cleaned = self._subjects.find(event.source, event.type)
        if self._client is None:
            raise Disconnected(self._problem)
        headers = event.headers
        headers[ORIGINAL_TYPE] = headers[TYPE]
        headers[TYPE] = cleaned
        headers[MESSAGE_ID] = message_id(event)
        # Another stream may have the subject too, and nobody would deliver its events.
        headers[EXPECTED_STREAM] = self._stream
        if tracing:
            headers.update(tracing)
        reply = self._acks.open(done, subject)
        try:
            self._client.publish(subject, event.data, headers, reply)
        except BaseException:
            self._acks.discard(reply)
            raise

    def problem(self) -> str | None:
        """Return why events cannot be stored; None if they can."""
        if self._client is not None and self._client.connected:
            return None
        return self._problem

    async def run(self) -> None:
        """Stay connected until cancelled; return after giving up reconnecting."""
        backoff = min(_FIRST_BACKOFF, self._options.reconnect_seconds)
        while True:
            try:
                async with NatsClient(self._options, self._clock) as client:
                    logger.info("connected to NATS at %s", self.destination)
                    await self._serve(client)
                    return
            except NatsError as error:
                # The server may start later than this process; it is not ready until then.
                self._problem = str(error)
                logger.warning("cannot connect to NATS at %s: %s", self.destination, error)
            await self._clock.sleep(backoff)
            backoff = min(2 * backoff, self._options.reconnect_seconds)

    async def _serve(self, client: NatsClient) -> None:
        client.subscribe(f"{self._acks.inbox}*", self._acks.resolve)
        client.on_change.append(self._on_change)
        client.on_refusal.append(self._acks.refuse)
        self._client = client
        try:
            await client.wait_closed()
            self._problem = f"gave up: {client.failure}"
            logger.error("gave up reconnecting to NATS at %s: %s", self.destination, client.failure)
        finally:
            self._client = None
            self._acks.fail(Disconnected("the publisher proxy has disconnected from NATS"))
            self._acks.close()

    def _on_change(self, connected: bool) -> None:
        if not connected:
            reason = self._client.failure if self._client else None
            self._problem = f"lost the connection to NATS: {reason}"
            # These events may be stored or not. Their publishers can send them again.
            self._acks.fail(Disconnected(self._problem))

    async def wait_idle(self, timeout: float) -> None:
        """Wait until no event is in flight, at most until the timeout."""
        deadline = self._clock.monotonic() + timeout
        while self._acks and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.02)
