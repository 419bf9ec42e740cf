"""A small HTTP/1.1 server: health, discovery and the publisher proxy answer through it.

The parsing is llhttp's (`httptools`); what a client may cost is bounded by `Limits`. A handler
returns a `Response`, or `Later`, a future or a coroutine of one; only a coroutine costs a task.
`conversation` is one client's part of it. Plain HTTP, or TLS if a context is given.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf

from quintet.clock import Clock, Timer
from quintet.web import listening
from quintet.web.conversation import WORKING, Conversation
from quintet.web.messages import Later, Request, Response

__all__ = ["Handler", "Later", "Limits", "Request", "Response", "Server"]

logger = logging.getLogger(__name__)

Handler = Callable[[Request], Response | Later | Awaitable[Response]]

_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may cost."""

    header_bytes: int = 16 << 10
    headers: int = 100
    body_bytes: int = 1 << 20
    excerpt_bytes: int = 0
    """Of a larger body keep so much and let the handler refuse the request; 0: refuse it at once."""
    buffered_bytes: int = 64 << 20
    """Bodies of all clients together, until they are answered."""
    connections: int = 1000
    """One more takes the place of the one that has been idle longest; it is refused if all are worked for."""
    head_seconds: float = 10.0
    """From the connection, or the first byte of a later request, to the end of its headers."""
    body_seconds: float = 30.0
    """From the end of the headers to the end of the body."""
    idle_seconds: float = 75.0
    """Between two requests."""
    send_seconds: float = 30.0
    """For a client that does not fetch its answer."""
    linger_seconds: float = 2.0
    """For a client to read why it was refused, before the connection is cut."""
    pipelined: int = 16
    """Requests of one client that may wait while another of it is worked on."""


class Server:
    """Listens on an address until it is stopped."""

    def __init__(self, handler: Handler, limits: Limits, clock: Clock) -> None:
        self.handler = handler
        self.limits = limits
        self.clock = clock
        self.conversations: set[Conversation] = set()
        self.stopping = False
        self.draining = False
        self.buffered = 0
        self._listener: asyncio.Server | None = None
        self._timer: Timer | None = None
        self._due = inf
        self._empty = asyncio.Event()

    async def start(self, host: str | None, port: int, *, tls: ssl.SSLContext | None = None) -> int:
        """Begin to listen; returns the port, which matters when any free one was asked for."""
        loop = asyncio.get_running_loop()
        patience = self.limits.head_seconds if tls else None
        self._listener = await loop.create_server(
            lambda: Conversation(self),
            host or None,
            port,
            ssl=tls,
            ssl_handshake_timeout=patience,
            backlog=1024,
        )
        return int(self._listener.sockets[0].getsockname()[1])

    def drain(self) -> None:
        """Serve on, but let each client go with its next answer: others answer it from then on."""
        self.draining = True

    async def stop(self, grace: float = 10.0) -> None:
        """Take nothing new, finish what was begun, then close; after the grace period close anyhow."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        self.stopping = self.draining = True
        await listening.close(listener)
        for conversation in list(self.conversations):
            conversation.wind_up()
        if self.conversations:
            timer = self.clock.call_later(grace, self._empty.set)
            self._empty.clear()
            await self._empty.wait()
            timer.cancel()
        for conversation in list(self.conversations):
            conversation.abort()
        if self._timer is not None:
            self._timer.cancel()

    def joined(self, conversation: Conversation) -> bool:
        """Somebody has connected; False if there is no room.

        Where it is full, whoever has kept us waiting longest must go: connections that are only held open
        must not keep others out, least of all the kubelet.
        """
        if len(self.conversations) >= self.limits.connections:
            longest = min(self.conversations, key=Conversation.by_patience, default=None)
            if longest is None or longest.by_patience() == WORKING:
                return False
            self.conversations.discard(longest)
            longest.abort()
        self.conversations.add(conversation)
        return True

    def left(self, conversation: Conversation) -> None:
        """Somebody is gone."""
        self.conversations.discard(conversation)
        if self.stopping and not self.conversations:
            self._empty.set()

    def look_by(self, deadline: float) -> None:
        """See that a deadline is noticed: one timer serves all, and none runs while nobody is there."""
        if deadline < self._due:
            self._due = deadline
            if self._timer is not None:
                self._timer.cancel()
            wait = max(deadline - self.clock.monotonic(), _LOOK_SECONDS)
            self._timer = self.clock.call_later(wait, self._look)

    def _look(self) -> None:
        now = self.clock.monotonic()
        self._timer, self._due = None, inf
        for conversation in list(self.conversations):
            if conversation.deadline <= now:
                conversation.late()
        self.look_by(min((each.deadline for each in self.conversations), default=inf))
