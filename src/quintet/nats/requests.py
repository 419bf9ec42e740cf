"""Requests that wait for a response. They share one inbox and one timer, and need no task each.

The last token of the reply subject identifies the request.
"""

import asyncio
import secrets
from itertools import count

import msgspec

from quintet.clock import Clock, Timer
from quintet.nats.errors import NatsError, NoResponders, RequestTimeout
from quintet.nats.messages import Message

# Deadlines are checked together, so a timeout can be this many seconds late.
_MAX_DELAY = 0.05


class _PendingRequest(msgspec.Struct, gc=False):
    future: asyncio.Future[Message]
    deadline: float
    subject: str


class PendingRequests:
    """Requests without a response so far."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self.inbox = f"_INBOX.{secrets.token_hex(11)}."
        self._prefix_length = len(self.inbox)
        self._numbers = count(1)
        self._pending: dict[str, _PendingRequest] = {}
        self._timer: Timer | None = None
        self._due = 0.0

    def __len__(self) -> int:
        return len(self._pending)

    def open(self, subject: str, seconds: float) -> tuple[str, asyncio.Future[Message]]:
        """Register a request; return its reply subject and the future of its response."""
        number = str(next(self._numbers))
        future: asyncio.Future[Message] = self._loop.create_future()
        deadline = self._clock.monotonic() + seconds
        self._pending[number] = _PendingRequest(future, deadline, subject)
        if self._timer is None or deadline < self._due:
            self._schedule(deadline)
        return self.inbox + number, future

    def discard(self, reply: str) -> None:
        """Forget a request that was not sent."""
        self._pending.pop(reply[self._prefix_length :], None)

    def resolve(self, message: Message) -> None:
        """Complete the request of a response; ignore a late response."""
        request = self._pending.pop(message.subject[self._prefix_length :], None)
        if request is None or request.future.done():
            return
        if message.head and message.status == 503:
            request.future.set_exception(NoResponders(f"no responders on {request.subject}"))
        else:
            request.future.set_result(message)

    def fail(self, error: NatsError, subject: str | None = None) -> None:
        """Fail all requests, or those with one subject, also as that of the response."""
        for number, request in list(self._pending.items()):
            if subject in (None, request.subject, self.inbox + number):
                del self._pending[number]
                _fail(request.future, error)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = deadline
        wait = max(deadline - self._clock.monotonic(), _MAX_DELAY)
        self._timer = self._clock.call_later(wait, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        for number, request in list(self._pending.items()):
            if request.deadline <= now:
                del self._pending[number]
                _fail(request.future, RequestTimeout(f"no response from {request.subject} in time"))
        if self._pending:
            self._schedule(min(request.deadline for request in self._pending.values()))


def _fail(future: asyncio.Future[Message], error: NatsError) -> None:
    if not future.done():
        future.set_exception(error)
        # Mark the error as retrieved: the caller may be gone, and asyncio would log it.
        future.exception()
