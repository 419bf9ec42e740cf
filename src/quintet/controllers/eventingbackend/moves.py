"""A backend moves to another server or stream without losing an event on the way.

Called by `controller`. The order: Subscriptions listen at the new place → publishers go there → what
is left at the old place is delivered → dispatchers follow. Each wait has an end, because the old
server may be the very reason to leave.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from quintet.apis.eventingbackend import EventingBackend
from quintet.apis.meta import ObjectKey
from quintet.controllers.eventingbackend.findings import Finding
from quintet.controllers.eventingbackend.probing import Timing
from quintet.eventing.naming import BACKEND
from quintet.eventing.settings import DispatcherSettings
from quintet.nats.client import Client
from quintet.nats.config import ConsumerInfo
from quintet.nats.errors import NatsError
from quintet.nats.jetstream import JetStream
from quintet.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class Place:
    """A stream on a server, and how to log in there."""

    url: str
    stream: str
    secret: str = ""
    own: bool = False
    """Whether the server is one that we run."""

    def differs(self, other: "Place") -> bool:
        """Whether it is another stream."""
        return (self.url, self.stream) != (other.url, other.stream)


Connect = Callable[[ObjectKey, Place], Awaitable[tuple[Client, str] | Finding]]


def place_of(settings: str, secret: str, *, own_url: str) -> Place | None:
    """Where pods with these settings work; None if they do not say."""
    try:
        told = msgspec.json.decode(settings, type=DispatcherSettings)
    except (msgspec.DecodeError, ValueError):
        return None
    return Place(told.nats.url, told.nats.stream, secret, told.nats.url == own_url)


class Moves:
    """The moves that are under way."""

    def __init__(self, connect: Connect, clock: Clock, timing: Timing) -> None:
        self._connect = connect
        self._clock = clock
        self._timing = timing
        self._since: dict[tuple[ObjectKey, str], float] = {}

    async def missing(self, backend: ObjectKey, place: Place, consumers: set[str]) -> int:
        """How many of these consumers are not there yet and still worth waiting for."""
        found = await self._consumers(backend, place)
        there = {each.name for each in found or ()}
        absent = len(consumers - there)
        return absent if absent and self._patient(backend, "wait", self._timing.longest_wait) else 0

    async def left(self, backend: EventingBackend, place: Place) -> int | None:
        """How many events are left there; None if that is not known yet. 0 also when it took too long."""
        if not self._patient(backend.key, "drain", self._timing.longest_drain):
            return 0
        found = await self._consumers(backend.key, place)
        if found is None:
            return None
        ours = [each for each in found if _mark(each) == backend.metadata.uid]
        return sum(each.num_pending + each.num_ack_pending for each in ours)

    def end(self, backend: ObjectKey) -> None:
        """Forget a move that is over."""
        for part in ("wait", "drain"):
            self._since.pop((backend, part), None)

    async def _consumers(self, backend: ObjectKey, place: Place) -> list[ConsumerInfo] | None:
        try:
            connected = await self._connect(backend, place)
            if isinstance(connected, Finding):
                return None
            return await JetStream(connected[0]).consumers(place.stream)
        except NatsError:
            return None

    def _patient(self, backend: ObjectKey, part: str, longest: float) -> bool:
        now = self._clock.monotonic()
        return now - self._since.setdefault((backend, part), now) < longest


def _mark(consumer: ConsumerInfo) -> str:
    metadata = consumer.config.metadata if consumer.config is not None else None
    return metadata.get(BACKEND, "") if isinstance(metadata, dict) else ""
