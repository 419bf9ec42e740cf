"""Finds out when nobody needs the subjects of an earlier configuration any more.

Publishers may store events under them until their pods are gone, and consumers must deliver those events.
With interest retention, the server drops an event at once if no consumer has its subject.
"""

from dataclasses import dataclass

from quintet.apis.eventingbackend import EventingBackend
from quintet.apis.meta import ObjectKey
from quintet.clock import Clock
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult
from quintet.controllers.eventingbackend.migration import Connect, StreamLocation
from quintet.controllers.eventingbackend.probes import Timing
from quintet.eventing.decide.consumers import has_handled, owner_uid
from quintet.nats.errors import NatsError
from quintet.nats.jetstream import JetStream


@dataclass(slots=True)
class _Move:
    """A move of all publishers to a location."""

    location: StreamLocation
    since: float
    last_sequence: int | None = None
    """The last event of the stream when the replaced publishers had ended."""


class FormerSubjects:
    """The former subjects of all backends."""

    def __init__(self, connect: Connect, clock: Clock, timing: Timing) -> None:
        self._connect = connect
        self._clock = clock
        self._timing = timing
        self._moves: dict[ObjectKey, _Move] = {}

    async def are_unused(self, backend: EventingBackend, location: StreamLocation) -> bool:
        """Return whether consumers have handled all events of publishers that were elsewhere before.

        Call it only while all publishers of the backend are rolled out at the location.
        """
        now = self._clock.monotonic()
        move = self._moves.get(backend.key)
        if move is None or move.location != location:
            move = self._moves[backend.key] = _Move(location, now)
        if now - move.since < self._timing.publisher_end:
            return False
        try:
            unused = await self._all_handled(backend, move)
        except NatsError:
            return False
        if unused:
            self.forget(backend.key)
        return unused

    def forget(self, backend: ObjectKey) -> None:
        """Forget a backend."""
        self._moves.pop(backend, None)

    async def _all_handled(self, backend: EventingBackend, move: _Move) -> bool:
        connected = await self._connect(backend.key, move.location)
        if isinstance(connected, ProbeResult):
            return False
        jetstream, stream = JetStream(connected[0]), move.location.stream
        if move.last_sequence is None:
            move.last_sequence = (await jetstream.stream_info(stream)).state.last_seq
        found = await jetstream.consumers(stream)
        return all(
            has_handled(each, move.last_sequence) for each in found if owner_uid(each) == backend.metadata.uid
        )
