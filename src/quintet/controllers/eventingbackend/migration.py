"""Migrates a backend to another server, stream or subject without losing events.

The order: consumers are created at the new stream → publishers switch → the remaining events of the old
stream are delivered → dispatchers switch. The wait for the old stream is limited, because its server may have
failed. The wait for consumers is not: an event without a consumer would be lost.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.apis.eventingbackend import EventingBackend
from quintet.apis.meta import ObjectKey
from quintet.clock import Clock
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult
from quintet.controllers.eventingbackend.probes import Timing
from quintet.eventing.decide.consumers import consumer_update, owner_uid
from quintet.eventing.settings import DispatcherSettings, NatsSettings, PublisherSettings
from quintet.eventing.streams import retry_stream
from quintet.nats.client import NatsClient
from quintet.nats.config import ConsumerConfig, ConsumerInfo
from quintet.nats.errors import NatsError, StreamNotFound
from quintet.nats.jetstream import JetStream


@dataclass(frozen=True, slots=True)
class StreamLocation:
    """A stream on a server, and the Secret to log in with."""

    url: str
    stream: str
    prefixes: tuple[str, str] = ("", "")
    """Prefixes of subjects and of event types, which determine the subject of an event."""
    secret: str = ""
    own: bool = False
    """Whether the operator runs the server."""

    def same_stream(self, other: "StreamLocation") -> bool:
        """Return whether both are the same stream on the same server."""
        return (self.url, self.stream) == (other.url, other.stream)

    def same(self, other: "StreamLocation") -> bool:
        """Return whether events have the same stream and subjects."""
        return self.same_stream(other) and self.prefixes == other.prefixes


def location_for(settings: DispatcherSettings | None, secret: str, *, own: bool) -> StreamLocation | None:
    """Return the location that dispatcher settings name; None if there is no dispatcher."""
    if settings is None:
        return None
    return _place(settings.nats, settings.event_type_prefix, secret, own=own)


_Wait = tuple[str, str, str, tuple[str, str]]
Connect = Callable[[ObjectKey, StreamLocation], Awaitable[tuple[NatsClient, str] | ProbeResult]]


def location_of(
    settings: str,
    secret: str,
    *,
    own_url: str,
    kind: type[DispatcherSettings] | type[PublisherSettings] = DispatcherSettings,
) -> StreamLocation | None:
    """Return the location that encoded settings name; None if they name no stream."""
    try:
        decoded = msgspec.json.decode(settings, type=kind)
    except (*DECODE_ERRORS, ValueError):
        return None
    if decoded.nats is None:
        return None
    return _place(decoded.nats, decoded.event_type_prefix, secret, own=decoded.nats.url == own_url)


class Migrations:
    """The migrations in progress."""

    def __init__(self, connect: Connect, clock: Clock, timing: Timing) -> None:
        self._connect = connect
        self._clock = clock
        self._timing = timing
        self._since: dict[ObjectKey, dict[_Wait, float]] = {}
        self._left: dict[ObjectKey, dict[StreamLocation, str]] = {}

    async def missing(
        self, backend: ObjectKey, location: StreamLocation, wanted: Mapping[str, ConsumerConfig]
    ) -> list[str]:
        """Return the Subscriptions whose desired consumer is missing at the new stream."""
        found = {each.name: each.config for each in await self._consumers(backend, location) or ()}
        return [name for name, each in wanted.items() if not _as_wanted(found.get(each.durable_name), each)]

    async def left(self, backend: EventingBackend, location: StreamLocation) -> int | None:
        """Return how many events remain; None if unknown, 0 also after the maximum wait."""
        if not self._patient(backend.key, "drain", location, self._timing.longest_drain):
            note = f"events in stream {location.stream} were not delivered in time and stay there"
            self._leave(backend.key, location, note)
            return 0
        found = await self._consumers(backend.key, location)
        if found is None:
            return None
        ours = [each for each in found if owner_uid(each) == backend.metadata.uid]
        retries = await self._consumers(backend.key, location, retry_stream(location.stream))
        if retries is None:
            return None
        return sum(each.num_pending + each.num_ack_pending for each in (*ours, *retries))

    def abandon(self, backend: ObjectKey, location: StreamLocation) -> None:
        """Note that publishers leave a stream again before dispatchers used it."""
        note = (
            f"publishers left stream {location.stream} before dispatchers used it: events that were "
            "published there were not delivered and stay there"
        )
        self._leave(backend, location, note)

    def end(self, backend: ObjectKey, now: StreamLocation | None) -> list[str]:
        """End the migrations and return messages about events that may remain in old streams."""
        self._since.pop(backend, None)
        left = self._left.pop(backend, {})
        return [note for location, note in left.items() if now is None or not location.same_stream(now)]

    async def _consumers(
        self, backend: ObjectKey, location: StreamLocation, stream: str = ""
    ) -> list[ConsumerInfo] | None:
        """Return the consumers of a stream, by default the one for events; None if they are unknown."""
        try:
            connected = await self._connect(backend, location)
            if isinstance(connected, ProbeResult):
                return None
            return await JetStream(connected[0]).consumers(stream or location.stream)
        except StreamNotFound:
            # Earlier releases had no stream for retries.
            return [] if stream else None
        except NatsError:
            return None

    def _leave(self, backend: ObjectKey, location: StreamLocation, note: str) -> None:
        self._left.setdefault(backend, {})[location] = note

    def _patient(self, backend: ObjectKey, part: str, location: StreamLocation, longest: float) -> bool:
        now = self._clock.monotonic()
        # A changed target has its own time limit.
        wait = (part, location.url, location.stream, location.prefixes)
        return now - self._since.setdefault(backend, {}).setdefault(wait, now) < longest


def _place(nats: NatsSettings, event_type_prefix: str, secret: str, *, own: bool) -> StreamLocation:
    return StreamLocation(nats.url, nats.stream, (nats.subject_prefix, event_type_prefix), secret, own)


def _as_wanted(found: ConsumerConfig | None, wanted: ConsumerConfig) -> bool:
    return found is not None and consumer_update(found, wanted) is None
