"""Requests that wait for their answer: one inbox for all, a number for each, no task and no timer of its own.

Used by `client`. One timer serves all deadlines; an answer finds its request by the last part of
the subject it came to.
"""

import asyncio
import secrets
from itertools import count

import msgspec

from quintet.clock import Clock, Timer
from quintet.nats.errors import NatsError, NoResponders, RequestTimeout
from quintet.nats.messages import Message

# Deadlines are looked at together: so many seconds late at most.
_SLACK = 0.05


class _Waiting(msgspec.Struct, gc=False):
    future: asyncio.Future[Message]
    deadline: float
    subject: str


class Requests:
    """What was asked and not answered yet."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self.inbox = f"_INBOX.{secrets.token_hex(11)}."
        self._skip = len(self.inbox)
        self._numbers = count(1)
        self._waiting: dict[str, _Waiting] = {}
        self._timer: Timer | None = None
        self._due = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def open(self, subject: str, seconds: float) -> tuple[str, asyncio.Future[Message]]:
        """Return where the answer must go, and what it will be."""
        number = str(next(self._numbers))
        future: asyncio.Future[Message] = self._loop.create_future()
        deadline = self._clock.monotonic() + seconds
        self._waiting[number] = _Waiting(future, deadline, subject)
        if self._timer is None or deadline < self._due:
            self._look_at(deadline)
        return self.inbox + number, future

    def forget(self, reply: str) -> None:
        """Nobody waits for this answer any more."""
        self._waiting.pop(reply[self._skip :], None)

    def answer(self, message: Message) -> None:
        """An answer has come."""
        waiting = self._waiting.pop(message.subject[self._skip :], None)
        if waiting is None or waiting.future.done():
            return  # too late
        if message.head and message.status == 503:
            waiting.future.set_exception(NoResponders(f"nobody listens on {waiting.subject}"))
        else:
            waiting.future.set_result(message)

    def fail(self, error: NatsError, subject: str | None = None) -> None:
        """End all that wait, or those of one subject, with an error."""
        for number, waiting in list(self._waiting.items()):
            if subject is None or waiting.subject == subject:
                del self._waiting[number]
                _refuse(waiting.future, error)

    def close(self) -> None:
        """Look at no deadline any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_at(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = deadline
        wait = max(deadline - self._clock.monotonic(), _SLACK)
        self._timer = self._clock.call_later(wait, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        for number, waiting in list(self._waiting.items()):
            if waiting.deadline <= now:
                del self._waiting[number]
                _refuse(waiting.future, RequestTimeout(f"no answer to {waiting.subject} in time"))
        if self._waiting:
            self._look_at(min(waiting.deadline for waiting in self._waiting.values()))


def _refuse(future: asyncio.Future[Message], error: NatsError) -> None:
    if not future.done():
        future.set_exception(error)
        # Who asked may have gone; an error that nobody fetched is not worth a log line.
        future.exception()
