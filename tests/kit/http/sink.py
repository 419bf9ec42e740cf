"""A sink: a small HTTP server that records requests, responds as configured and can be stopped for a while."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, cast

import httptools

from kit.cli.quintet import free_port
from quintet.web.server import stop_listening

_LINE = {
    200: b"OK",
    204: b"No Content",
    302: b"Found",
    400: b"Bad Request",
    500: b"Internal Server Error",
    503: b"Service Unavailable",
}


class Received(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["ce-id"]


Answering = Callable[[Received], int]
"""Returns the response status of a request."""


class Sink:
    """Listens on loopback; `received` has every answered request, in order."""

    def __init__(
        self, answer: Answering | None = None, *, keep: Callable[[Received], None] | None = None
    ) -> None:
        self.received: list[Received] = []
        self.answer: Answering = answer or (lambda request: 204)
        self.keep = keep or self.received.append
        self.extra = b""
        """Additional header and body bytes of every response."""
        self.hold: asyncio.Event | None = None
        """Responses wait until this event is set."""
        # Not an ephemeral port: while the sink is stopped, an outgoing connection could take it.
        self.port = free_port()
        self.waiting: list[Received] = []
        """The requests whose responses wait."""
        self.most_under_way = 0
        self.connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen on the same port as before."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), "127.0.0.1", self.port, reuse_address=True
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            await stop_listening(self._server)
            for connection in list(self.connections):
                connection.abort()
            await self._server.wait_closed()
            self._server = None

    @property
    def under_way(self) -> int:
        return len(self.waiting)

    @property
    def ids(self) -> list[str]:
        return [request.id for request in self.received]


@contextlib.asynccontextmanager
async def a_sink(answer: Answering | None = None) -> AsyncIterator[Sink]:
    """Run a sink while inside."""
    sink = Sink(answer)
    await sink.start()
    try:
        yield sink
    finally:
        await sink.stop()


class _Connection(asyncio.Protocol):
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._path, self._headers, self._body = "", dict[str, str](), b""
        self._tasks: set[asyncio.Task[None]] = set()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._sink.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._sink.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._headers, self._body = {}, b""

    def on_url(self, url: bytes) -> None:
        self._path = url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        request = Received(self._path, self._headers, self._body)
        if self._sink.hold is None:
            self._reply(request)
            return
        task = asyncio.get_running_loop().create_task(self._later(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _later(self, request: Received) -> None:
        sink = self._sink
        sink.waiting.append(request)
        sink.most_under_way = max(sink.most_under_way, sink.under_way)
        assert sink.hold is not None
        await sink.hold.wait()
        sink.waiting.remove(request)
        self._reply(request)

    def _reply(self, request: Received) -> None:
        status = self._sink.answer(request)
        # A request whose response cannot be sent was not accepted.
        if self._transport is None or self._transport.is_closing():
            return
        self._sink.keep(request)
        head = f"HTTP/1.1 {status} ".encode() + _LINE.get(status, b"Answer")
        extra = self._sink.extra or (b"\r\n\r\n" if status == 204 else b"\r\ncontent-length: 0\r\n\r\n")
        self._transport.write(head + extra)
