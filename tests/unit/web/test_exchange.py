"""How often an exchange sends its request, and what decides its result, whatever the server does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from kit.clock import VirtualClock
from kit.http.raw import get
from quintet.web import pool as module
from quintet.web.connection import Connection, ConnectionTarget, connect
from quintet.web.pool import ConnectionPool

GOOD = b"HTTP/1.1 204 No Content\r\n\r\n"
DROP = b""
PART_OF_STATUS = b"HTTP/1."
CUT_BODY = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"
CUT_CHUNK = b"HTTP/1.1 202 Accepted\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab"
BROKEN_CHUNK = b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\nno number\r\n"
CUT_REFUSAL = b"HTTP/1.1 503 Unavailable\r\nretry-after: 7\r\ncontent-length: 10\r\n\r\nabc"


@dataclass
class ScriptedServer:
    """Responds to every request with some bytes; `closes` then closes the connection."""

    answer: bytes = GOOD
    closes: bool = False
    requests: int = 0
    port: int = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                self.requests += 1
                writer.write(self.answer)
                if self.closes:
                    break
        writer.close()


@contextlib.asynccontextmanager
async def a_scripted_server() -> AsyncIterator[ScriptedServer]:
    script = ScriptedServer()
    server = await asyncio.start_server(script.talk, "127.0.0.1", 0)
    script.port = server.sockets[0].getsockname()[1]
    try:
        yield script
    finally:
        server.close()


@contextlib.asynccontextmanager
async def a_pool_with_idle(script: ScriptedServer, idle: int) -> AsyncIterator[tuple[ConnectionPool, object]]:
    """Yield a pool with idle connections, each of which has served one request."""

    async def open_connection() -> Connection:
        return await connect(ConnectionTarget(f"http://127.0.0.1:{script.port}", None))

    pool = ConnectionPool(VirtualClock(), idle_seconds=10.0, max_idle=64)
    connections = [await open_connection() for _ in range(idle)]
    for connection in connections:
        connection.send(get())
        await connection.head()
        pool.release("a", connection)
    script.requests = 0
    try:
        yield pool, open_connection
    finally:
        pool.close()


@pytest.mark.parametrize(
    ("answer", "idle", "want_requests"),
    [(DROP, 0, 1), (DROP, 1, 2), (DROP, 40, 2), (PART_OF_STATUS, 0, 1), (PART_OF_STATUS, 40, 1)],
    ids=[
        "new connection that closes: one request",
        "reused connection that closes: one more",
        "forty idle connections that close: one more",
        "part of a status on a new connection: one request",
        "part of a status on a reused connection: one request",
    ],
)
async def test_exchange_without_status_sends_at_most_one_more_request(answer, idle, want_requests):
    async with a_scripted_server() as script, a_pool_with_idle(script, idle) as (pool, opener):
        script.answer, script.closes = answer, True
        with pytest.raises(ConnectionError):
            await pool.exchange("a", opener, get(), 30.0)
        assert script.requests == want_requests


@pytest.mark.parametrize("idle", [0, 1, 40])
@pytest.mark.parametrize(
    ("answer", "want_status"),
    [(CUT_BODY, 200), (CUT_CHUNK, 202), (BROKEN_CHUNK, 201), (CUT_REFUSAL, 503)],
    ids=["cut body", "cut chunk", "broken chunk", "cut refusal"],
)
async def test_status_decides_although_the_body_breaks(answer, want_status, idle):
    async with a_scripted_server() as script, a_pool_with_idle(script, idle) as (pool, opener):
        script.answer, script.closes = answer, True
        response = await pool.exchange("a", opener, get(), 30.0)
        assert (response.status, script.requests) == (want_status, 1)
        assert response.retry_after == ("7" if want_status == 503 else None)


async def test_status_decides_although_the_body_stalls(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_BODY_SECONDS", 0.01)
    async with a_scripted_server() as script, a_pool_with_idle(script, 1) as (pool, opener):
        script.answer = CUT_BODY
        assert (await pool.exchange("a", opener, get(), 30.0)).status == 200
        # The connection with the open body is not used for the next request.
        script.answer = GOOD
        assert (await pool.exchange("a", opener, get(), 30.0)).status == 204
        assert script.requests == 2


async def test_timeout_without_status_sends_one_request():
    async with a_scripted_server() as script, a_pool_with_idle(script, 40) as (pool, opener):
        script.answer = DROP
        with pytest.raises(TimeoutError):
            await pool.exchange("a", opener, get(), 0.05)
        assert script.requests == 1
