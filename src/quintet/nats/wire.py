"""One connection to a NATS server: batched writes, parsed reads, and pings that notice a dead peer.

Opened by `dial`, owned by `client`. All that is published in one turn of the event loop leaves as
one write. A wire lives once: when it is lost, the client makes another.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

from quintet.clock import Clock, Timer
from quintet.nats import protocol
from quintet.nats.errors import Disconnected, LoginRefused, NatsError, Overloaded
from quintet.nats.messages import Message
from quintet.nats.protocol import Parser, Ping, Pong, Refusal, ServerInfo

# What is written in one piece: more is cut, so that a burst does not double in memory.
_PIECE = 1 << 18


class Receiver(Protocol):
    """Who is told what arrives."""

    def message(self, message: Message) -> None:
        """A message for one of our subscriptions."""

    def info_changed(self, wire: "Wire", info: ServerInfo) -> None:
        """The server says anew what it is."""

    def refusal(self, text: str) -> None:
        """The server did not do something."""

    def lost(self, wire: "Wire", error: Exception | None) -> None:
        """The connection is over."""


class Wire(asyncio.Protocol):
    """A connection, from its first byte to its end."""

    def __init__(self, most_waiting: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._most_waiting = most_waiting
        self._transport: asyncio.Transport | None = None
        self._parser = Parser()
        self._out: list[bytes] = []
        self._waiting = 0
        self._scheduled = False
        self._paused = False
        self._receiver: Receiver | None = None
        self._greeting: asyncio.Future[ServerInfo] = self._loop.create_future()
        self._pongs: deque[Callable[[Exception | None], None]] = deque()
        self._timer: Timer | None = None
        self._silent = 0
        self.error: Exception | None = None
        self.ended = False
        self.info = ServerInfo()

    # Sending.

    def send(self, data: bytes) -> None:
        """Put bytes in the next write; refuse if too many wait already."""
        if self.ended:
            raise Disconnected("the connection to NATS was lost")
        if self._waiting > self._most_waiting:
            raise Overloaded(f"more than {self._most_waiting} bytes wait to be sent to NATS")
        self._put(data)

    def send_always(self, data: bytes) -> None:
        """Send a few bytes that end something, however much waits; nothing if the connection is over."""
        if not self.ended:
            self._put(data)

    def _put(self, data: bytes) -> None:
        self._waiting += len(data)
        self._out.append(data)
        if not self._scheduled and not self._paused:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def ping(self, answered: Callable[[Exception | None], None]) -> None:
        """Ask for a sign that all before this was read; calls back with None, or with why there is none."""
        self.send(protocol.PING)
        self._pongs.append(answered)

    def log_in(self, login: bytes, answered: Callable[[Exception | None], None]) -> None:
        """Send a login that ends with a PING; calls back when the server has answered that."""
        self.send(login)
        self._pongs.append(answered)

    def _flush(self) -> None:
        self._scheduled = False
        if self._paused:
            return
        if not self.ended and self._transport is not None:
            self._write(self._transport)

    def _write(self, transport: asyncio.Transport) -> None:
        out, self._out = self._out, []
        self._waiting = 0
        if len(out) == 1:
            transport.write(out[0])
            return
        piece: list[bytes] = []
        size = 0
        for position, data in enumerate(out):
            piece.append(data)
            size += len(data)
            if size >= _PIECE:
                transport.write(b"".join(piece))
                piece, size = [], 0
                if self._paused:  # the write has told us to stop: the rest waits, and counts
                    self._out = out[position + 1 :] + self._out
                    self._waiting = sum(map(len, self._out))
                    return
        if piece:
            transport.write(b"".join(piece))

    # The beginning and the end.

    async def greeting(self) -> ServerInfo:
        """Wait for what the server says first."""
        return await asyncio.shield(self._greeting)

    @property
    def transport(self) -> asyncio.Transport:
        """What carries the bytes; exchanged for an encrypted one by `dial`."""
        assert self._transport is not None, "a wire is made by `dial`"
        return self._transport

    @transport.setter
    def transport(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def attend(self, receiver: Receiver, clock: Clock, ping_seconds: float) -> None:
        """From here on, tell somebody what arrives, and see that the server is still there."""
        self._receiver = receiver

        def look() -> None:
            if self.ended:
                return
            if self._silent >= 2:
                self._fail(Disconnected(f"NATS has not answered for {2 * ping_seconds:g} s"))
                return
            self._silent += 1
            self._pongs.append(lambda _: None)
            self._put(protocol.PING)
            self._timer = clock.call_later(ping_seconds, look)

        self._timer = clock.call_later(ping_seconds, look)

    def close(self) -> None:
        """End it; what was sent before goes out if the peer takes it at once."""
        if not self.ended and self._transport is not None:
            self._flush()
            if self._transport.get_write_buffer_size():
                self._transport.abort()  # a peer that does not read would keep it open for ever
            else:
                self._transport.close()

    def abort(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: NatsError) -> None:
        self.error = self.error or error
        self.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        self._silent = 0
        parser, receiver = self._parser, self._receiver
        for event in parser.feed(data):
            if type(event) is Message:
                if receiver is not None:
                    receiver.message(event)
            else:
                self._control(event)
        if parser.broken is not None:
            self._fail(parser.broken)

    def _control(self, event: protocol.Event) -> None:
        match event:
            case Ping():
                self._put(protocol.PONG)
            case Pong():
                if self._pongs:
                    self._pongs.popleft()(None)
            case ServerInfo():
                self.info = event
                if not self._greeting.done():
                    self._greeting.set_result(event)
                elif self._receiver is not None:
                    self._receiver.info_changed(self, event)
            case Refusal():
                self.error = _refused(event.text) or self.error
                if self._receiver is not None:
                    self._receiver.refusal(event.text)

    def pause_writing(self) -> None:
        """The peer reads slowly: what is sent waits here, and counts."""
        self._paused = True

    def resume_writing(self) -> None:
        """The peer has read."""
        self._paused = False
        if self._out and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def connection_lost(self, error: Exception | None) -> None:
        """It is over."""
        self.ended = True
        self.error = self.error or error
        if self._timer is not None:
            self._timer.cancel()
        self._out.clear()
        reason = self.error or Disconnected("the server closed the connection")
        if not self._greeting.done():
            self._greeting.set_exception(reason)
            self._greeting.exception()  # nobody may be waiting
        while self._pongs:
            self._pongs.popleft()(reason)
        if self._receiver is not None:
            self._receiver.lost(self, self.error)


def _refused(text: str) -> NatsError | None:
    """Return what an -ERR means for the connection; None if that stays. The protocol has no numbers here."""
    lower = text.lower()
    if "permissions violation" in lower or "invalid subject" in lower or "invalid publish subject" in lower:
        return None
    if "authorization violation" in lower or "authentication" in lower:
        return LoginRefused(f"NATS refused the login: {text}")
    return Disconnected(f"NATS ended the connection: {text}")
