"""One connection to a NATS server: batched writes, parsed reads, and pings that detect a dead server.

Everything that is sent in one event loop iteration is written at once. A lost connection is not reused.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

from quintet.clock import Clock, Timer
from quintet.nats import protocol
from quintet.nats.errors import Disconnected, LoginRefused, NatsError, NotPermitted, Overloaded
from quintet.nats.messages import Message
from quintet.nats.protocol import Parser, Ping, Pong, ServerError, ServerInfo

# Larger bursts are written in several pieces, so that joining them does not double the memory.
_MAX_WRITE_BYTES = 1 << 18
_SUBSCRIBE_VIOLATION = re.compile(r'Permissions Violation for Subscription to "([^"]+)"', re.IGNORECASE)


class ConnectionListener(Protocol):
    """Receives the messages and events of a connection."""

    def on_message(self, message: Message) -> None:
        """Handle a message of a subscription."""

    def on_info(self, connection: "NatsConnection", info: ServerInfo) -> None:
        """Handle an INFO after the first one."""

    def on_error(self, text: str) -> None:
        """Handle an -ERR."""

    def on_lost(self, connection: "NatsConnection", error: Exception | None) -> None:
        """Handle the loss of the connection."""


class NatsConnection(asyncio.Protocol):
    """A connection to a NATS server."""

    def __init__(self, max_pending_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._max_pending_bytes = max_pending_bytes
        self._transport: asyncio.Transport | None = None
        self._parser = Parser()
        self._out: list[bytes] = []
        self._pending_bytes = 0
        self._scheduled = False
        self._paused = False
        self._listener: ConnectionListener | None = None
        self._first_info: asyncio.Future[ServerInfo] = self._loop.create_future()
        self._pongs: deque[Callable[[Exception | None], None]] = deque()
        self._timer: Timer | None = None
        self._unanswered_pings = 0
        self.error: Exception | None = None
        self.lost = False
        self.info = ServerInfo()

    # Send.

    def send(self, data: bytes) -> None:
        """Add bytes to the next write; raise `Overloaded` if too many are pending."""
        if self.lost:
            raise Disconnected("lost the connection to NATS")
        if self._pending_bytes > self._max_pending_bytes:
            raise Overloaded(f"more than {self._max_pending_bytes} bytes are waiting to be sent to NATS")
        self._enqueue(data)

    def send_unlimited(self, data: bytes) -> None:
        """Send a few bytes regardless of the limit, to free resources; ignored on a lost connection."""
        if not self.lost:
            self._enqueue(data)

    def _enqueue(self, data: bytes) -> None:
        self._pending_bytes += len(data)
        self._out.append(data)
        if not self._scheduled and not self._paused:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def ping(self, on_pong: Callable[[Exception | None], None]) -> None:
        """Send a PING; call back with None on its PONG, or with an error if the connection is lost."""
        self.send(protocol.PING)
        self._pongs.append(on_pong)

    def log_in(self, login: bytes, on_pong: Callable[[Exception | None], None]) -> None:
        """Send a login that ends with a PING; call back like `ping`."""
        self.send(login)
        self._pongs.append(on_pong)

    def _flush(self) -> None:
        self._scheduled = False
        if self._paused:
            return
        if not self.lost and self._transport is not None:
            self._write(self._transport)

    def _write(self, transport: asyncio.Transport) -> None:
        out, self._out = self._out, []
        self._pending_bytes = 0
        if len(out) == 1:
            transport.write(out[0])
            return
        piece: list[bytes] = []
        size = 0
        for position, data in enumerate(out):
            piece.append(data)
            size += len(data)
            if size >= _MAX_WRITE_BYTES:
                transport.write(b"".join(piece))
                piece, size = [], 0
                if self._paused:  # by this write: keep the rest, which counts as pending
                    self._out = out[position + 1 :] + self._out
                    self._pending_bytes = sum(map(len, self._out))
                    return
        if piece:
            transport.write(b"".join(piece))

    # Start and close.

    async def first_info(self) -> ServerInfo:
        """Wait for the INFO that the server sends first."""
        return await asyncio.shield(self._first_info)

    @property
    def transport(self) -> asyncio.Transport:
        """The transport; replaced when TLS starts."""
        assert self._transport is not None, "open a connection with `connect`"
        return self._transport

    @transport.setter
    def transport(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def start(self, listener: ConnectionListener, clock: Clock, ping_seconds: float) -> None:
        """Pass everything that arrives to a listener, and ping the server regularly."""
        self._listener = listener

        def send_ping() -> None:
            if self.lost:
                return
            if self._unanswered_pings >= 2:
                self._fail(Disconnected(f"the NATS server did not respond for {2 * ping_seconds:g} s"))
                return
            self._unanswered_pings += 1
            self._pongs.append(lambda _: None)
            self._enqueue(protocol.PING)
            self._timer = clock.call_later(ping_seconds, send_ping)

        self._timer = clock.call_later(ping_seconds, send_ping)

    def close(self) -> None:
        """Close the connection; pending bytes are sent only if the socket accepts them immediately."""
        if not self.lost and self._transport is not None:
            self._flush()
            if self._transport.get_write_buffer_size():
                self._transport.abort()  # a server that does not read would keep it open forever
            else:
                self._transport.close()

    def abort(self) -> None:
        """Close the connection immediately."""
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: NatsError) -> None:
        self.error = self.error or error
        self.abort()

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes and pass messages to the listener."""
        self._unanswered_pings = 0
        parser, listener = self._parser, self._listener
        for event in parser.feed(data):
            if type(event) is Message:
                if listener is not None:
                    listener.on_message(event)
            else:
                self._handle(event)
                if isinstance(self.error, NotPermitted):
                    self.abort()
                    break
        if parser.broken is not None:
            self._fail(parser.broken)

    def _handle(self, event: protocol.ProtocolEvent) -> None:
        match event:
            case Ping():
                self._enqueue(protocol.PONG)
            case Pong():
                if self._pongs:
                    self._pongs.popleft()(None)
            case ServerInfo():
                self.info = event
                if not self._first_info.done():
                    self._first_info.set_result(event)
                elif self._listener is not None:
                    self._listener.on_info(self, event)
            case ServerError():
                self.error = _fatal_error(event.text) or self.error
                if self._listener is not None:
                    self._listener.on_error(event.text)

    def pause_writing(self) -> None:
        """Keep further bytes pending, because the server reads slowly."""
        self._paused = True

    def resume_writing(self) -> None:
        """Send the pending bytes."""
        self._paused = False
        if self._out and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def connection_lost(self, error: Exception | None) -> None:
        """Mark the connection as lost and fail everything that waits for the server."""
        self.lost = True
        self.error = self.error or error
        if self._timer is not None:
            self._timer.cancel()
        self._out.clear()
        reason = self.error or Disconnected("the server closed the connection")
        if not self._first_info.done():
            self._first_info.set_exception(reason)
            self._first_info.exception()  # marks it as retrieved: nobody may be waiting
        while self._pongs:
            self._pongs.popleft()(reason)
        if self._listener is not None:
            self._listener.on_lost(self, self.error)


def _fatal_error(text: str) -> NatsError | None:
    """Return the error with which an -ERR ends the connection; None if the connection stays open.

    The protocol has no error numbers here, so the text decides.
    """
    lower = text.lower()
    if found := _SUBSCRIBE_VIOLATION.match(text):
        # Every subscription is one for responses, which would never arrive.
        return NotPermitted(f"no permission to subscribe to {found[1]}")
    if "permissions violation" in lower or "invalid subject" in lower or "invalid publish subject" in lower:
        return None
    if "authorization violation" in lower or "authentication" in lower:
        return LoginRefused(f"the NATS server rejected the login: {text}")
    return Disconnected(f"the NATS server closed the connection: {text}")
