"""The backend nats: events go into a stream, and are stored once JetStream acknowledges them.

Used by `proxy`. An event is kept in binary form, the one in which it is delivered. Its id in the
stream comes from its source and id, so one that is sent again is recognised and not stored twice.
"""

import logging
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from quintet.clock import Clock
from quintet.eventing.decide.cloudevents import Event
from quintet.eventing.publisher.acks import Acks, Done
from quintet.eventing.publisher.decide.subjects import Subjects
from quintet.eventing.settings import NatsSettings
from quintet.nats.client import Client
from quintet.nats.credentials import from_files
from quintet.nats.errors import Disconnected, NatsError
from quintet.nats.jetstream import EXPECTED_STREAM, MESSAGE_ID
from quintet.nats.options import Options

logger = logging.getLogger(__name__)

ORIGINAL_TYPE: Final = "ce-originaltype"
_FIRST_PAUSE: Final = 0.2


def message_id(event: Event) -> str:
    """The same for every try of one event, and for no other event: a zero byte is in no attribute."""
    return blake2b(f"{event.source}\0{event.id}".encode(), digest_size=16).hexdigest()


class StreamBackend:
    """Publishes to one stream and waits for acknowledgements."""

    def __init__(
        self, settings: NatsSettings, event_type_prefix: str, seconds: float, name: str, clock: Clock
    ) -> None:
        self._clock = clock
        self._stream = settings.stream
        self._subjects = Subjects(settings.subject_prefix, event_type_prefix)
        self._acks = Acks(seconds, clock)
        self._client: Client | None = None
        self._problem = "there is no connection to NATS yet"
        self._options = Options(
            settings.url,
            from_files(settings.credentials) if settings.credentials else None,
            name,
            settings.max_reconnects,
            settings.reconnect_seconds,
        )
        self.destination = self._options.place

    def check(self, event: Event) -> None:
        """Raise `NoSubjectError` if the stream has no subject for it."""
        self._subjects.of(event.source, event.type)

    def send(self, event: Event, tracing: Mapping[str, str], done: Done) -> None:
        """Store an event and call back; what cannot even be sent raises at once."""
        subject, cleaned = self._subjects.of(event.source, event.type)
        if self._client is None:
            raise Disconnected(self._problem)
        headers = event.headers
        headers[ORIGINAL_TYPE] = headers["ce-type"]
        headers["ce-type"] = cleaned
        headers[MESSAGE_ID] = message_id(event)
        # Another stream may listen here, too: nobody would deliver what that one keeps.
        headers[EXPECTED_STREAM] = self._stream
        if tracing:
            headers.update(tracing)
        reply = self._acks.open(done)
        try:
            self._client.publish(subject, event.data, headers, reply)
        except BaseException:
            self._acks.forget(reply)
            raise

    def finding(self) -> str | None:
        """Why no event can be stored now; None if it can."""
        if self._client is not None and self._client.connected:
            return None
        return self._problem

    async def run(self) -> None:
        """Stay connected until cancelled; returns when it has given up."""
        pause = min(_FIRST_PAUSE, self._options.reconnect_seconds)
        while True:
            try:
                async with Client(self._options, self._clock) as client:
                    logger.info("connected to NATS at %s", self.destination)
                    await self._serve(client)
                    return
            except NatsError as error:
                # At the start a server may not be there yet; readiness says so meanwhile.
                self._problem = str(error)
                logger.warning("no connection to NATS at %s: %s", self.destination, error)
            await self._clock.sleep(pause)
            pause = min(2 * pause, self._options.reconnect_seconds)

    async def _serve(self, client: Client) -> None:
        client.subscribe(f"{self._acks.inbox}*", self._acks.answer)
        client.on_change.append(self._changed)
        self._client = client
        try:
            await client.wait_closed()
            self._problem = f"gave up: {client.failure}"
            logger.error("no connection to NATS at %s any more: %s", self.destination, client.failure)
        finally:
            self._client = None
            self._acks.fail(Disconnected("the publisher proxy has left NATS"))
            self._acks.close()

    def _changed(self, connected: bool) -> None:
        if not connected:
            reason = self._client.failure if self._client else None
            self._problem = f"the connection to NATS was lost: {reason}"
            # Whether these are stored is unknown. Their publishers may send them again.
            self._acks.fail(Disconnected(self._problem))

    async def settle(self, seconds: float) -> None:
        """Wait until nothing is under way, but not for ever."""
        deadline = self._clock.monotonic() + seconds
        while self._acks and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.02)
