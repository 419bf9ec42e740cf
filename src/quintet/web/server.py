"""A small HTTP/1.1 server for health checks, metrics, admission webhooks, discovery and the publisher proxy.

A handler returns a `Response`, a `DeferredResponse`, a `StreamedResponse`, a future or a coroutine; only the
last and a stream cost a task.
`ServerLimits` bounds what clients can use. Plain HTTP, or TLS if a context is given.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf

from quintet.clock import Clock, Timer
from quintet.web.messages import DeferredResponse, Request, Response
from quintet.web.server_connection import BUSY, ServerConnection
from quintet.web.streaming import StreamedResponse
from quintet.web.tls_listener import TlsListener

__all__ = ["DeferredResponse", "Handler", "Request", "Response", "Server", "ServerLimits", "StreamedResponse"]

logger = logging.getLogger(__name__)

Handler = Callable[[Request], Response | DeferredResponse | StreamedResponse | Awaitable[Response]]

_MIN_TIMEOUT_CHECK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits on size, number and duration of requests and connections."""

    header_bytes: int = 16 << 10
    """From the first byte of a request line to the empty line after the headers; trailers count too."""
    headers: int = 100
    body_bytes: int = 1 << 20
    excerpt_bytes: int = 0
    """Keep this much of a larger body and let the handler reject the request; 0: reject it immediately."""
    buffered_bytes: int = 64 << 20
    """Bodies of all clients together, until the response is sent."""
    connections: int = 1000
    """One more evicts the connection that has been idle longest; it is rejected if all are busy."""
    handshakes: int = 100
    """With TLS: one more evicts the connection whose handshake takes longest."""
    head_seconds: float = 10.0
    """From the connection, or from the first byte of a later request, to the end of the headers."""
    body_seconds: float = 30.0
    """From the end of the headers to the end of the body."""
    idle_seconds: float = 75.0
    """Between two requests."""
    send_seconds: float = 30.0
    """For a client to read its response."""
    linger_seconds: float = 2.0
    """For a client to read an error response before the connection is aborted."""
    pipelined: int = 16
    """Requests of one client that are queued while another one is handled."""


class Server:
    """Serves a handler on one address."""

    def __init__(self, handler: Handler, limits: ServerLimits, clock: Clock) -> None:
        self.handler = handler
        self.limits = limits
        self.clock = clock
        self.connections: set[ServerConnection] = set()
        self.stopping = False
        self.draining = False
        self.buffered = 0
        self._listener: asyncio.Server | TlsListener | None = None
        self._timer: Timer | None = None
        self._next_timeout = inf
        self._all_closed = asyncio.Event()

    async def start(self, host: str | None, port: int, *, tls: ssl.SSLContext | None = None) -> int:
        """Listen, and return the port; port 0 chooses a free one."""
        if tls is not None:
            self._listener = TlsListener(
                lambda: ServerConnection(self),
                tls,
                self.clock,
                handshakes=self.limits.handshakes,
                seconds=self.limits.head_seconds,
            )
            return self._listener.start(host, port)
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: ServerConnection(self), host or None, port, backlog=1024
        )
        return int(self._listener.sockets[0].getsockname()[1])

    def drain(self) -> None:
        """Close each connection after its next response, so that clients reconnect elsewhere."""
        self.draining = True

    async def stop(self, grace: float = 10.0) -> None:
        """Stop listening, finish the requests in progress, then close; abort them after the grace period."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        self.stopping = self.draining = True
        if isinstance(listener, TlsListener):
            listener.stop()
        else:
            await stop_listening(listener)
        for connection in list(self.connections):
            connection.finish()
        if self.connections:
            timer = self.clock.call_later(grace, self._all_closed.set)
            self._all_closed.clear()
            await self._all_closed.wait()
            timer.cancel()
        for connection in list(self.connections):
            connection.abort()
        if isinstance(listener, TlsListener):
            await listener.abort()
        if self._timer is not None:
            self._timer.cancel()

    def add_connection(self, connection: ServerConnection) -> bool:
        """Register a new connection; return False if the server is full.

        A full server evicts the connection that has been idle longest: clients that only hold connections
        open must not lock out others, least of all the kubelet.
        """
        if len(self.connections) >= self.limits.connections:
            oldest = min(self.connections, key=ServerConnection.eviction_order, default=None)
            if oldest is None or oldest.eviction_order() == BUSY:
                return False
            self.connections.discard(oldest)
            oldest.abort()
        self.connections.add(connection)
        return True

    def remove_connection(self, connection: ServerConnection) -> None:
        """Forget a closed connection."""
        self.connections.discard(connection)
        if self.stopping and not self.connections:
            self._all_closed.set()

    def schedule_timeout(self, deadline: float) -> None:
        """Schedule the timeout check; one timer serves all connections, and none runs without connections."""
        if deadline < self._next_timeout:
            self._next_timeout = deadline
            if self._timer is not None:
                self._timer.cancel()
            wait = max(deadline - self.clock.monotonic(), _MIN_TIMEOUT_CHECK_SECONDS)
            self._timer = self.clock.call_later(wait, self._check_timeouts)

    def _check_timeouts(self) -> None:
        now = self.clock.monotonic()
        self._timer, self._next_timeout = None, inf
        for connection in list(self.connections):
            if connection.deadline <= now:
                connection.handle_timeout()
        self.schedule_timeout(min((each.deadline for each in self.connections), default=inf))


async def stop_listening(listener: asyncio.Server) -> None:
    """Stop listening without losing a connection that is being accepted.

    When an asyncio server is closed between accepting a connection and starting its protocol, nobody
    answers or closes that connection. uvloop starts the protocol after the server was closed.
    """
    loop = asyncio.get_running_loop()
    for each in listener.sockets:
        loop.remove_reader(each.fileno())
    await _start_accepted(loop)
    listener.close()
    await _start_accepted(loop)


async def _start_accepted(loop: asyncio.AbstractEventLoop) -> None:
    """Wait two iterations of the event loop, in which the protocol of an accepted connection starts."""
    iterations = loop.create_future()
    loop.call_soon(loop.call_soon, iterations.set_result, None)
    await iterations
