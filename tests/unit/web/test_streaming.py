"""A streamed response: chunks as they are produced, backpressure, and its end on either side."""

import asyncio

import pytest

from kit.eventually import eventually
from quintet.clock import SystemClock
from quintet.web.server import Request, Server, ServerLimits, StreamedResponse


class Source:
    """A stream of which a test decides when it produces the next chunk."""

    def __init__(self) -> None:
        self.chunks: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.closed = asyncio.Event()
        self.produced = 0

    async def stream(self):
        try:
            while (chunk := await self.chunks.get()) is not None:
                if isinstance(chunk, Exception):
                    raise chunk
                self.produced += 1
                yield chunk
        finally:
            self.closed.set()

    def handle(self, request: Request) -> StreamedResponse:
        return StreamedResponse(self.stream(), "text/event-stream", {"Cache-Control": "no-store"})


@pytest.fixture
async def source():
    return Source()


@pytest.fixture
async def server(source):
    found = Server(source.handle, ServerLimits(), SystemClock())
    yield found
    await found.stop(grace=0)


async def ask(server: Server, method: str = "GET") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", await server.start("127.0.0.1", 0))
    writer.write(f"{method} / HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return reader, writer


async def test_stream_sends_each_chunk_at_once_and_ends_with_the_connection(server, source):
    reader, writer = await ask(server)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(
        b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Type: text/event-stream\r\n"
    )
    assert b"Connection: close" in head
    assert b"Content-Length" not in head
    for chunk in (b"one", b"two"):
        source.chunks.put_nowait(chunk)
        assert await reader.readexactly(3) == chunk
    source.chunks.put_nowait(None)
    assert await reader.read() == b""
    writer.close()


async def test_stream_is_closed_when_the_client_disconnects(server, source):
    reader, writer = await ask(server)
    await reader.readuntil(b"\r\n\r\n")
    writer.close()
    await asyncio.wait_for(source.closed.wait(), 60)


async def test_stream_is_closed_when_the_server_stops(server, source):
    reader, writer = await ask(server)
    await reader.readuntil(b"\r\n\r\n")
    await asyncio.wait_for(server.stop(grace=600), 60)
    await asyncio.wait_for(source.closed.wait(), 60)
    assert await reader.read() == b""
    writer.close()


async def test_stream_that_fails_ends_the_response(server, source, caplog):
    reader, writer = await ask(server)
    source.chunks.put_nowait(ValueError("broken"))
    assert (await reader.read()).endswith(b"\r\n\r\n")
    assert "Streamed response failed" in caplog.text
    writer.close()


async def test_head_request_of_a_stream_gets_the_head_only(server, source):
    reader, writer = await ask(server, "HEAD")
    assert (await reader.read()).endswith(b"\r\n\r\n")
    assert source.produced == 0
    writer.close()


async def test_stream_produces_nothing_while_the_client_does_not_read(server, source):
    chunk, count = b"x" * 100_000, 1000
    for _ in range(count):
        source.chunks.put_nowait(chunk)
    source.chunks.put_nowait(None)
    reader, writer = await ask(server)
    await reader.readuntil(b"\r\n\r\n")

    def waits_for_the_client() -> None:
        (connection,) = server.connections
        assert connection.eviction_order()[0] == 1, "it still writes"

    await eventually(waits_for_the_client)
    assert source.produced < count
    assert len(await reader.read()) == count * len(chunk)
    writer.close()
