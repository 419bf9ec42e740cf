"""Peers that speak NATS up to a point: nothing of theirs makes a client hang, spin or grow.

What a real server does is tested with one (`integration/test_nats_*`); these do what none would.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from kit.clock import VirtualClock
from kit.eventually import eventually, eventually_true
from quintet.nats.client import Client
from quintet.nats.errors import LoginRefused, NatsError, Overloaded, ProtocolError, Unreachable
from quintet.nats.options import Options

GREETING = b'INFO {"server_id":"X","max_payload":1048576,"headers":true}\r\n'
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def a_peer(talk: Talk) -> AsyncIterator[tuple[str, list[int]]]:
    """Talks to everybody who connects; the list counts them."""
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
    """Let somebody in."""
    writer.write(GREETING)
    await reader.readuntil(b"PING\r\n")
    writer.write(b"PONG\r\n")


def a_client(url: str, clock: VirtualClock, **options) -> Client:
    return Client(Options(url, **{"connect_seconds": 10.0, "reconnect_seconds": 3.0, **options}), clock)


async def test_a_server_that_lets_us_in_and_throws_us_out_is_not_asked_ever_faster():
    async def talk(reader, writer):
        await greet(reader, writer)

    clock = VirtualClock()
    async with a_peer(talk) as (url, calls), a_client(url, clock) as client:
        for _ in range(300):
            await clock.advance(0.2)
            await asyncio.sleep(0.001)
        assert 10 < len(calls) < 40, f"{len(calls)} connections in a minute"
        assert not client.closed


async def test_a_server_that_throws_us_out_again_and_again_is_given_up_when_that_was_asked_for():
    async def talk(reader, writer):
        await greet(reader, writer)

    clock = VirtualClock()
    async with a_peer(talk) as (url, calls), a_client(url, clock, max_reconnects=5) as client:

        async def given_up() -> None:
            await clock.advance(1)
            assert client.closed

        await eventually(given_up)
        assert len(calls) == 6


@pytest.mark.parametrize(
    "rubbish",
    [
        pytest.param(b"\x00\x01\x02 not NATS\r\n", id="rubbish"),
        pytest.param(b"MSG a 1 99999999999\r\n", id="the promise of a message without end"),
        pytest.param(b"x" * (3 << 20), id="a line without end"),
        pytest.param(b"INFO {\r\n", id="an INFO that is none"),
    ],
)
async def test_a_connection_that_brings_rubbish_is_ended_and_made_again(rubbish):
    talked = []

    async def talk(reader, writer):
        await greet(reader, writer)
        await reader.readuntil(b"SUB ")
        if not talked:
            talked.append(1)
            writer.write(rubbish)
            await writer.drain()
        await reader.read()

    clock = VirtualClock()
    async with a_peer(talk) as (url, calls), a_client(url, clock) as client:
        failures: list[NatsError | None] = []
        client.on_change.append(lambda connected: failures.append(client.failure))
        await eventually_true(lambda: failures)
        assert isinstance(failures[0], ProtocolError)

        async def back() -> None:
            await clock.advance(1)
            assert client.connected

        await eventually(back)
        assert len(calls) == 2


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param(b"", Unreachable, id="nothing"),
        pytest.param(GREETING, Unreachable, id="a greeting and the end"),
        pytest.param(
            GREETING + b"-ERR 'maximum connections exceeded'\r\n", Unreachable, id="that it is full"
        ),
        pytest.param(
            GREETING + b"-ERR 'Authorization Violation'\r\n", LoginRefused, id="that we are not known"
        ),
        pytest.param(
            GREETING + b"-ERR 'User Authentication Expired'\r\n", LoginRefused, id="that we were known"
        ),
        pytest.param(GREETING + b"HELLO\r\n", ProtocolError, id="nonsense"),
    ],
)
async def test_the_reason_why_a_login_failed_is_told(said, want):
    async def talk(reader, writer):
        writer.write(said)
        await writer.drain()

    async with a_peer(talk) as (url, _):
        with pytest.raises(want):
            await a_client(url, VirtualClock()).__aenter__()


async def test_a_login_that_is_never_answered_is_given_up():
    async def talk(reader, writer):
        writer.write(GREETING)
        await reader.read()

    async with a_peer(talk) as (url, _):
        with pytest.raises(Unreachable, match="did not answer within"):
            await a_client(url, VirtualClock(), connect_seconds=0.2).__aenter__()


async def test_messages_for_nobody_and_answers_to_nothing_are_dropped():
    async def talk(reader, writer):
        await greet(reader, writer)
        writer.write(b"MSG a 77 2\r\nhi\r\nPONG\r\nPONG\r\nMSG _INBOX.x.99 1 2\r\nhi\r\n+OK\r\n")
        await reader.readuntil(b"PING\r\n")
        writer.write(b"PONG\r\n")
        await reader.read()

    async with a_peer(talk) as (url, _), a_client(url, VirtualClock()) as client:
        await client.flush()
        assert client.connected


async def test_a_subscription_that_could_not_be_sent_is_not_kept_and_one_that_ends_is_always_told():
    heard: list[bytes] = []

    async def talk(reader, writer):
        await greet(reader, writer)
        while piece := await reader.read(1 << 16):
            heard.append(piece)

    async with a_peer(talk) as (url, _), a_client(url, VirtualClock(), most_waiting=100) as client:
        kept = client.subscribe("kept", lambda message: None)
        await eventually_true(lambda: b"SUB kept" in b"".join(heard))
        client.publish("a", b"x" * 1000)  # too much waits from here on, until the loop turns
        with pytest.raises(Overloaded):
            client.subscribe("refused", lambda message: None)
        kept.unsubscribe()
        await eventually_true(lambda: b"UNSUB " in b"".join(heard))
        assert client._subscriptions == {}
        assert len(client._callbacks) == 1, "only that of answers is left"
