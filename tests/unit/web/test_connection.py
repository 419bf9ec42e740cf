"""Limits of a client connection against a malicious server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from quintet.web.connection import Connection, ConnectionTarget, connect

KIB = 1024
HINTS = b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n"


class Peer:
    """A server that sends given pieces until the client disconnects."""

    def __init__(self) -> None:
        self.sent = 0
        self.pieces: Callable[[], bytes] = lambda: b""
        self.most = 8 << 20

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            while self.sent < self.most and (piece := self.pieces()):
                writer.write(piece)
                await writer.drain()
                self.sent += len(piece)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()


@asynccontextmanager
async def a_peer(*first: bytes, forever: bytes = b"") -> AsyncIterator[tuple[Peer, Connection]]:
    """Yield a server and a connection that has sent a request."""
    peer, pieces = Peer(), list(first)
    peer.pieces = lambda: pieces.pop(0) if pieces else forever
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connection = await connect(ConnectionTarget(f"http://127.0.0.1:{port}", None))
    try:
        connection.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        yield peer, connection
    finally:
        connection.close()
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(
    ("first", "forever"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nX: ", b"y" * 4096, id="header value"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", b"y" * 4096, id="header name"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 500, id="headers"),
        pytest.param(b"HTTP/1.1 200 ", b"y" * 4096, id="reason phrase"),
        pytest.param(HINTS, HINTS * 50, id="1xx responses"),
        pytest.param(CHUNKED + b"0\r\nX: ", b"y" * 4096, id="trailer value"),
        pytest.param(CHUNKED + b"0\r\n", b"X: y\r\n" * 500, id="trailers"),
        pytest.param(CHUNKED + b"5;", b"y" * 4096, id="chunk extension"),
    ],
)
async def test_endless_response_head_is_rejected(first, forever):
    async with a_peer(first, forever=forever) as (peer, connection):
        with pytest.raises(ConnectionError, match="64 KiB of headers"):
            await connection.body()
        # The socket buffers of both sides add to the limit.
        assert peer.sent < peer.most, "all of it was read"


async def test_many_small_chunks_do_not_count_as_headers():
    chunk = b"4\r\nline\r\n"
    pieces = [CHUNKED, *[chunk * 100] * 300, b"0\r\n\r\n"]
    async with a_peer(*pieces) as (_, connection):
        assert await connection.body() == b"body" + b"line" * 30_000


class Silent(asyncio.Transport):
    """A transport that discards everything."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""


@settings(max_examples=150, deadline=None)
@given(
    headers=st.lists(st.integers(0, 40 * KIB), max_size=5),
    trailers=st.lists(st.integers(0, 40 * KIB), max_size=5),
    cuts=st.lists(st.integers(1, 200 * KIB), max_size=10),
)
def test_headers_are_rejected_only_if_too_large_however_they_are_split(headers, trailers, cuts, fresh_loop):
    """The limit counts headers and trailers together; a margin of a KiB is left out."""

    def block(name: str, sizes: list[int]) -> bytes:
        return b"".join(f"{name}{n}: ".encode() + b"y" * size + b"\r\n" for n, size in enumerate(sizes))

    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + block("H", headers) + b"\r\n"
    sent = head + b"4\r\nbody\r\n0\r\n" + block("T", trailers) + b"\r\n"
    size = sum(headers) + sum(trailers)

    async def story() -> None:
        connection = Connection()
        connection.connection_made(Silent())
        connection.send(b"GET / HTTP/1.1\r\n\r\n")
        start = 0
        for cut in (*sorted(cuts), len(sent)):
            if not connection.lost and start < cut <= len(sent):
                connection.data_received(sent[start:cut])
                start = cut
        if size < 63 * KIB:
            assert await connection.body() == b"body"
            assert connection.is_reusable
        if size > 64 * KIB:
            with pytest.raises(ConnectionError, match="headers"):
                await connection.body()

    fresh_loop.run_until_complete(story())


def test_trailer_is_no_header(fresh_loop):
    async def story() -> None:
        connection = Connection()
        connection.connection_made(Silent())
        connection.send(b"GET / HTTP/1.1\r\n\r\n")
        connection.data_received(
            b"HTTP/1.1 503 X\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nRetry-After: 5\r\n\r\n"
        )
        assert await connection.body() == b"body"
        assert connection.retry_after is None

    fresh_loop.run_until_complete(story())
