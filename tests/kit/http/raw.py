"""An HTTP client that sends raw bytes, and an HTTP server with a virtual clock in the same process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from kit.clock import VirtualClock, settle
from quintet.web.server import Handler, Request, Response, Server, ServerLimits


@dataclass(slots=True)
class Answer:
    """One response, parsed without our own code."""

    status: int
    headers: dict[str, str]
    body: bytes


class RawClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, *, bodiless: bool = False) -> Answer:
        """Wait for the next response."""
        async with asyncio.timeout(30):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            length = 0 if bodiless else int(headers.get("content-length", "0"))
            return Answer(int(first.split()[1]), headers, await self.reader.readexactly(length))

    async def ask(self, data: bytes, *, bodiless: bool = False) -> Answer:
        self.send(data)
        return await self.answer(bodiless=bodiless)

    async def rest(self) -> bytes:
        """Return everything until the server closes or breaks the connection."""
        found = b""
        async with asyncio.timeout(30):
            # In chunks: data received before a reset counts.
            with contextlib.suppress(ConnectionError):
                while piece := await self.reader.read(1 << 16):
                    found += piece
        return found

    @property
    def closed(self) -> bool:
        # `at_eof` is true only after everything was read.
        return self.reader._eof or self.reader.exception() is not None  # type: ignore[attr-defined]

    def close(self) -> None:
        self.writer.transport.abort()


@dataclass(slots=True)
class Place:
    """A running server, its clock and its requests."""

    server: Server
    clock: VirtualClock
    port: int
    clients: list[RawClient] = field(default_factory=list)

    async def connect(self) -> RawClient:
        client = RawClient(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        return client

    async def wait(self, seconds: float) -> None:
        """Advance the server's clock in small steps and let the sockets work in between."""
        for _ in range(round(seconds * 2)):
            await asyncio.sleep(0)
            await self.clock.advance(0.5)
            await settle()

    async def seconds_until_closed(self, client: RawClient, at_most: float = 200) -> float:
        """Return how much of the server's time passes until it closes a connection."""
        began = self.clock.elapsed
        while not client.closed and self.clock.elapsed - began < at_most:
            await self.wait(1)
            await asyncio.sleep(0.001)
        return self.clock.elapsed - began


@asynccontextmanager
async def a_server(handler: Handler, limits: ServerLimits | None = None) -> AsyncIterator[Place]:
    """Run a server on a free port with a virtual clock while inside."""
    clock = VirtualClock()
    server = Server(handler, limits or ServerLimits(), clock)
    place = Place(server, clock, await server.start("127.0.0.1", 0))
    try:
        yield place
    finally:
        for client in place.clients:
            client.close()
        stopping = asyncio.ensure_future(server.stop(grace=1))
        while not stopping.done():
            await clock.advance(1)


def echo(request: Request) -> Response:
    """Return the request as the response."""
    text = f"{request.method} {request.path}?{request.query} {request.body.decode('latin-1')}"
    return Response(200, text.encode("latin-1"))


def get(path: str = "/", *lines: str) -> bytes:
    return request("GET", path, *lines)


def request(method: str, path: str, *lines: str, body: bytes = b"") -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: x", *lines]
    if body:
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body
