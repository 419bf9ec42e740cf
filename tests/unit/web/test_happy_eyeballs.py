"""Hosts with several addresses, some of them dead: clients connect to the others without delay."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from functools import partial
from types import SimpleNamespace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from quintet.apis.eventingbackend.addresses import NetworkLimits
from quintet.clock import SystemClock
from quintet.eventing.dispatcher import sink_client as sinks_module
from quintet.eventing.dispatcher.decide.outgoing_event import OutgoingEvent
from quintet.eventing.dispatcher.sink_client import SinkClient
from quintet.nats.client import NatsClient
from quintet.nats.errors import LoginRefused, ServerUnreachable
from quintet.nats.options import NatsOptions
from quintet.web.connection import ConnectionTarget, connect
from quintet.web.happy_eyeballs import connect_first
from quintet.web.http_client import HttpClient

DEAD, LIVE = "127.0.0.2", "127.0.0.1"


@contextlib.contextmanager
def a_dead_address(port: int) -> Iterator[None]:
    """Block an address: its backlog is full, so connections hang as behind a firewall that drops packets."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind((DEAD, port))
        listener.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex((DEAD, port))
        yield


@contextlib.asynccontextmanager
async def a_live_address(answer: bytes, first: bytes = b"", *, once: bool = False) -> AsyncIterator[int]:
    """Run a server that sends `first`, then `answer` after each input; with `once` it closes then."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        with contextlib.suppress(ConnectionError):
            while await reader.read(1 << 16):
                writer.write(answer)
                if once:
                    break
        writer.close()

    server = await asyncio.start_server(serve, LIVE, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


async def test_http_connects_when_first_address_is_dead(monkeypatch):
    loop = asyncio.get_running_loop()

    async def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        family = socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (each, port)) for each in (DEAD, LIVE)]

    async with a_live_address(OK) as port:
        with a_dead_address(port):
            monkeypatch.setattr(loop, "getaddrinfo", resolve)
            async with asyncio.timeout(10):
                connection = await connect(ConnectionTarget(f"http://api.example:{port}", None))
            connection.close()


async def test_sink_with_dead_first_address_gets_event(monkeypatch):
    async def resolve(host: str, port: int) -> list[str]:
        return [DEAD, LIVE]

    monkeypatch.setattr(sinks_module, "resolve", resolve)
    monkeypatch.setattr(sinks_module, "find_refusal", lambda *_: "")
    async with a_live_address(OK) as port:
        with a_dead_address(port):
            sinks = SinkClient(SystemClock(), NetworkLimits.of())
            answer = await sinks.post(f"http://sink.example:{port}/", OutgoingEvent({}, b"{}"), 5.0)
            sinks.close()
            assert answer.status == 200, answer


async def test_http_client_connects_when_first_address_is_dead():
    async with a_live_address(OK) as port:
        with a_dead_address(port):
            caller = HttpClient(f"http://mesh.example:{port}/", SystemClock(), 5.0, (DEAD, LIVE))
            assert (await caller.post({}, b"{}")).status == 200
            caller.close()


@pytest.mark.parametrize("addresses", [(DEAD, LIVE), (LIVE, DEAD)], ids=["dead first", "live first"])
async def test_nats_client_connects_when_one_address_is_dead(addresses):
    greeting = b'INFO {"server_id":"X","max_payload":1048576,"headers":true}\r\n'
    async with a_live_address(b"PONG\r\n", greeting) as port:
        with a_dead_address(port):
            options = NatsOptions(f"nats://nats.example:{port}", addresses=addresses, connect_seconds=5.0)
            async with NatsClient(options, SystemClock()) as client:
                assert client.connected


async def test_nats_client_skips_a_silent_server():
    greeting = b'INFO {"server_id":"X","max_payload":1048576,"headers":true}\r\n'
    async with a_live_address(b"PONG\r\n", greeting) as port:
        with socket.create_server((DEAD, port)):
            for _ in range(4):  # in random order
                options = NatsOptions(
                    f"nats://nats.example:{port}", addresses=(DEAD, LIVE), connect_seconds=5.0
                )
                async with NatsClient(options, SystemClock()) as client:
                    assert client.connected


async def test_rejected_login_ends_the_race():
    greeting = b'INFO {"server_id":"X","max_payload":1048576,"headers":true}\r\n'
    async with a_live_address(b"-ERR 'Authorization Violation'\r\n", greeting, once=True) as port:
        options = NatsOptions(f"nats://nats.example:{port}", addresses=(LIVE, LIVE), connect_seconds=5.0)
        with pytest.raises(LoginRefused):
            await NatsClient(options, SystemClock()).__aenter__()


async def test_nats_client_raises_when_no_address_responds():
    with socket.create_server((DEAD, 0)) as silent:
        port = silent.getsockname()[1]
        options = NatsOptions(f"nats://nats.example:{port}", addresses=(DEAD, DEAD), connect_seconds=0.3)
        with pytest.raises(ServerUnreachable, match=r"within 0\.3 s"):
            await NatsClient(options, SystemClock()).__aenter__()


class Boom(Exception):
    """An error that is not a connection failure."""


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["ok", "fails", "hangs", "boom"])), min_size=1))
def test_first_connection_wins_and_others_are_closed(fates):
    """Each attempt needs so many turns of the loop; the head start is long, so a hanging one ends the story."""
    state = SimpleNamespace(opened=[], closed=[], failed=[])

    async def attempt(number: int) -> int:
        turns, fate = fates[number]
        for _ in range(turns):
            await asyncio.sleep(0)
        if fate == "hangs":
            await asyncio.Event().wait()
        if fate != "ok":
            state.failed.append(number)
            raise OSError(number) if fate == "fails" else Boom(number)
        state.opened.append(number)
        return number

    async def story() -> None:
        async with asyncio.timeout(0.05):
            won = await connect_first(
                [partial(attempt, n) for n in range(len(fates))], OSError, state.closed.append
            )
        assert won in state.opened
        assert sorted(state.closed) == sorted(set(state.opened) - {won})

    try:
        asyncio.run(story())
    except TimeoutError:
        assert "hangs" in {fate for _, fate in fates}
    except OSError:
        assert {fate for _, fate in fates} == {"fails"}
    except Boom:
        assert "boom" in {fate for _, fate in fates}
