"""Acknowledgements of JetStream that are waited for: a callback each, no future, task or timer of its own.

Used by `stream`. Answers find their event by the subject they come to; one timer serves all
deadlines, which are in the order in which they were made because all wait equally long.
"""

import logging
import secrets
from collections.abc import Callable
from itertools import count
from typing import Final

from quintet.clock import Clock, Timer
from quintet.nats.errors import NatsError, RequestTimeout, StreamMissing
from quintet.nats.jetstream import ack_of
from quintet.nats.messages import Message

logger = logging.getLogger(__name__)

Done = Callable[[Exception | None], None]
"""Called once: None when the event is stored, else why that is not known."""

# Deadlines are looked at together: so many seconds late at most.
_SLACK: Final = 0.1
_NOBODY_LISTENS: Final = 503


class Acks:
    """What was published and not acknowledged yet."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._clock = clock
        self.inbox = f"_INBOX.{secrets.token_hex(11)}."
        self._numbers = count(1)
        self._waiting: dict[str, tuple[Done, float]] = {}
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def open(self, done: Done) -> str:
        """Where the acknowledgement of one event must go."""
        reply = f"{self.inbox}{next(self._numbers)}"
        self._waiting[reply] = (done, self._clock.monotonic() + self._seconds)
        if self._timer is None:
            self._timer = self._clock.call_later(self._seconds + _SLACK, self._look)
        return reply

    def forget(self, reply: str) -> None:
        """Wait no more for one that was not sent."""
        self._waiting.pop(reply, None)

    def answer(self, message: Message) -> None:
        """Take an acknowledgement; one that came too late is for nobody."""
        found = self._waiting.pop(message.subject, None)
        if found is not None:
            found[0](_meaning(message))

    def fail(self, error: NatsError) -> None:
        """Tell everybody that no acknowledgement will come."""
        waiting, self._waiting = self._waiting, {}
        for done, _ in waiting.values():
            _tell(done, error)

    def close(self) -> None:
        """Look at no deadline any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        now = self._clock.monotonic()
        late = []
        for reply, (_, deadline) in self._waiting.items():
            if deadline > now:
                break
            late.append(reply)
        for reply in late:
            done, _ = self._waiting.pop(reply)
            _tell(done, RequestTimeout(f"JetStream did not acknowledge the event within {self._seconds:g} s"))
        self._timer = None
        if self._waiting:
            _, deadline = next(iter(self._waiting.values()))
            self._timer = self._clock.call_later(deadline - now + _SLACK, self._look)


def _tell(done: Done, error: NatsError) -> None:
    try:
        done(error)
    except Exception:
        # The others must hear of it all the same.
        logger.exception("somebody who waits for an acknowledgement failed")


def _meaning(message: Message) -> NatsError | None:
    """Why an event was not stored; None if it was, now or by an earlier try."""
    if message.head and message.status == _NOBODY_LISTENS:
        return StreamMissing("no stream keeps the subject of the event")
    try:
        ack_of(message)
    except NatsError as error:
        return error
    return None
