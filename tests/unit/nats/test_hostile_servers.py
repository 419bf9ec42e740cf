"""NATS servers that misbehave: a client must not hang, reconnect in a tight loop or fill its memory.

The integration tests `test_nats_*` use a real server; these servers do what a real one would not.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from kit.clock import VirtualClock
from kit.eventually import eventually, eventually_true
from quintet.nats.client import NatsClient
from quintet.nats.errors import (
    LoginRefused,
    NatsError,
    NotPermitted,
    Overloaded,
    ProtocolError,
    ServerUnreachable,
)
from quintet.nats.options import NatsOptions

GREETING = b'INFO {"server_id":"X","max_payload":1048576,"headers":true}\r\n'
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def a_peer(talk: Talk) -> AsyncIterator[tuple[str, list[int]]]:
    """Run a server; the list has one entry per connection."""
    calls: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.append(1)
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}", calls
    finally:
        server.close()


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send INFO and accept the login."""
    writer.write(GREETING)
    await reader.readuntil(b"PING\r\n")
    writer.write(b"PONG\r\n")


def a_client(url: str, clock: VirtualClock, **options) -> NatsClient:
    return NatsClient(
        NatsOptions(url, **{"connect_seconds": 10.0, "reconnect_seconds": 3.0, **options}), clock
    )


async def test_client_keeps_backing_off_when_server_closes_after_every_login():
    async def talk(reader, writer):
        await greet(reader, writer)

    clock = VirtualClock()
    async with a_peer(talk) as (url, calls), a_client(url, clock) as client:
        for _ in range(300):
            await clock.advance(0.2)
            await asyncio.sleep(0.001)
        assert 10 < len(calls) < 40, f"{len(calls)} connections in a minute"
        assert not client.closed


async def test_client_gives_up_after_max_reconnects_when_server_closes_after_every_login():
    async def talk(reader, writer):
        await greet(reader, writer)

    clock = VirtualClock()
    async with a_peer(talk) as (url, calls), a_client(url, clock, max_reconnects=5) as client:

        async def client_is_closed() -> None:
            await clock.advance(1)
            assert client.closed

        await eventually(client_is_closed)
        assert len(calls) == 6


@pytest.mark.parametrize(
    "invalid",
    [
        pytest.param(b"\x00\x01\x02 not NATS\r\n", id="random bytes"),
        pytest.param(b"MSG a 1 99999999999\r\n", id="message of excessive size"),
        pytest.param(b"x" * (3 << 20), id="endless line"),
        pytest.param(b"INFO {\r\n", id="invalid INFO"),
    ],
)
async def test_client_reconnects_after_invalid_data(invalid):
    talked = []
    logged_in = asyncio.Event()

    async def talk(reader, writer):
        await greet(reader, writer)
        await logged_in.wait()
        if not talked:
            talked.append(1)
            writer.write(invalid)
            await writer.drain()
        await reader.read()

    clock = VirtualClock()
    async with a_peer(talk) as (url, calls), a_client(url, clock) as client:
        failures: list[NatsError | None] = []
        client.on_change.append(lambda connected: failures.append(client.failure))
        logged_in.set()
        await eventually_true(lambda: failures)
        assert isinstance(failures[0], ProtocolError)

        async def client_is_connected() -> None:
            await clock.advance(1)
            assert client.connected

        await eventually(client_is_connected)
        assert len(calls) == 2


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param(b"", ServerUnreachable, id="closes without INFO"),
        pytest.param(GREETING, ServerUnreachable, id="closes after INFO"),
        pytest.param(
            GREETING + b"-ERR 'maximum connections exceeded'\r\n", ServerUnreachable, id="maximum connections"
        ),
        pytest.param(GREETING + b"-ERR 'Authorization Violation'\r\n", LoginRefused, id="unknown user"),
        pytest.param(GREETING + b"-ERR 'User Authentication Expired'\r\n", LoginRefused, id="expired user"),
        pytest.param(GREETING + b"HELLO\r\n", ProtocolError, id="invalid data"),
    ],
)
async def test_failed_login_raises_the_matching_error(said, want):
    async def talk(reader, writer):
        writer.write(said)
        await writer.drain()

    async with a_peer(talk) as (url, _):
        with pytest.raises(want):
            await a_client(url, VirtualClock()).__aenter__()


async def test_login_fails_when_server_rejects_subscription_to_responses():
    heard: list[bytes] = []

    async def talk(reader, writer):
        writer.write(GREETING)
        heard.append(await reader.readuntil(b"PING\r\n"))
        writer.write(b"-ERR 'Permissions Violation for Subscription to \"_INBOX.x.*\"'\r\nPONG\r\n")
        await reader.read()

    async with a_peer(talk) as (url, calls):
        with pytest.raises(NotPermitted, match="no permission to subscribe to _INBOX"):
            await a_client(url, VirtualClock()).__aenter__()
        assert len(calls) == 1
    assert b"SUB _INBOX." in heard[0], "the subscription is part of the login"


async def test_login_without_response_times_out():
    async def talk(reader, writer):
        writer.write(GREETING)
        await reader.read()

    async with a_peer(talk) as (url, _):
        with pytest.raises(ServerUnreachable, match="did not respond within"):
            await a_client(url, VirtualClock(), connect_seconds=0.2).__aenter__()


async def test_client_ignores_messages_without_subscription_and_unexpected_pongs():
    async def talk(reader, writer):
        await greet(reader, writer)
        writer.write(b"MSG a 77 2\r\nhi\r\nPONG\r\nPONG\r\nMSG _INBOX.x.99 1 2\r\nhi\r\n+OK\r\n")
        await reader.readuntil(b"PING\r\n")
        writer.write(b"PONG\r\n")
        await reader.read()

    async with a_peer(talk) as (url, _), a_client(url, VirtualClock()) as client:
        await client.flush()
        assert client.connected


async def test_overloaded_client_rejects_new_subscription_but_sends_unsubscribe():
    heard: list[bytes] = []

    async def talk(reader, writer):
        await greet(reader, writer)
        while piece := await reader.read(1 << 16):
            heard.append(piece)

    async with a_peer(talk) as (url, _), a_client(url, VirtualClock(), max_pending_bytes=100) as client:
        kept = client.subscribe("kept", lambda message: None)
        await eventually_true(lambda: b"SUB kept" in b"".join(heard))
        client.publish("a", b"x" * 1000)  # exceeds the pending limit until the next loop iteration
        with pytest.raises(Overloaded):
            client.subscribe("rejected", lambda message: None)
        kept.unsubscribe()
        await eventually_true(lambda: b"UNSUB " in b"".join(heard))
        assert client._subscriptions == {}
        assert len(client._callbacks) == 1, "only the callback of responses is left"
