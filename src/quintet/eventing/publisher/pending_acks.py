"""Published events that wait for their JetStream acknowledgement, each with a callback.

An event needs no future, task or timer of its own: the reply subject identifies it, and one timer serves all
deadlines, which are in the order of publishing because all have the same timeout.
"""

import logging
import secrets
from collections.abc import Callable
from itertools import count
from typing import Final

from quintet.clock import Clock, Timer
from quintet.nats.errors import NatsError, RequestTimeout, StreamMissing
from quintet.nats.jetstream import parse_ack
from quintet.nats.messages import Message

logger = logging.getLogger(__name__)

Done = Callable[[Exception | None], None]
"""Called once: with None when the event is stored, otherwise with the error."""

# Deadlines are checked together, so a timeout can be this many seconds late.
_MAX_DELAY: Final = 0.1
_NO_RESPONDERS: Final = 503


class PendingAcks:
    """Published events without an acknowledgement."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._clock = clock
        self.inbox = f"_INBOX.{secrets.token_hex(11)}."
        self._numbers = count(1)
        self._pending: dict[str, tuple[Done, float, str]] = {}
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._pending)

    def open(self, done: Done, subject: str = "") -> str:
        """Register an event with its subject; return the reply subject for its acknowledgement."""
        reply = f"{self.inbox}{next(self._numbers)}"
        self._pending[reply] = (done, self._clock.monotonic() + self._seconds, subject)
        if self._timer is None:
            self._timer = self._clock.call_later(self._seconds + _MAX_DELAY, self._check_deadlines)
        return reply

    def discard(self, reply: str) -> None:
        """Forget an event that was not sent."""
        self._pending.pop(reply, None)

    def resolve(self, message: Message) -> None:
        """Complete the event of an acknowledgement; ignore a late one."""
        found = self._pending.pop(message.subject, None)
        if found is not None:
            found[0](_ack_error(message))

    def fail(self, error: NatsError) -> None:
        """Fail all pending events."""
        pending, self._pending = self._pending, {}
        for done, *_ in pending.values():
            _call(done, error)

    def refuse(self, subject: str, error: NatsError) -> None:
        """Fail the pending events with a subject that the publisher may not use."""
        refused = [reply for reply, (*_, used) in self._pending.items() if subject in (used, reply)]
        for reply in refused:
            _call(self._pending.pop(reply)[0], error)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _check_deadlines(self) -> None:
        now = self._clock.monotonic()
        late = []
        for reply, (_, deadline, _) in self._pending.items():
            if deadline > now:
                break
            late.append(reply)
        for reply in late:
            _call(
                self._pending.pop(reply)[0],
                RequestTimeout(f"JetStream did not acknowledge the event within {self._seconds:g} s"),
            )
        self._timer = None
        if self._pending:
            _, deadline, _ = next(iter(self._pending.values()))
            self._timer = self._clock.call_later(deadline - now + _MAX_DELAY, self._check_deadlines)


def _call(done: Done, error: NatsError) -> None:
    try:
        done(error)
    except Exception:
        # The callbacks of other events must still run.
        logger.exception("the callback of an acknowledgement failed")


def _ack_error(message: Message) -> NatsError | None:
    """Return why an event was not stored; None if it was, now or by an earlier attempt."""
    if message.head and message.status == _NO_RESPONDERS:
        return StreamMissing("no stream has the subject of the event")
    try:
        parse_ack(message)
    except NatsError as error:
        return error
    return None
