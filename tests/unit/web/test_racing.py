"""Names with several addresses, of which some are dead: whoever connects does not wait for those."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from functools import partial
from types import SimpleNamespace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from quintet.apis.eventingbackend.addresses import Limits
from quintet.clock import SystemClock
from quintet.eventing.dispatcher import sinks as sinks_module
from quintet.eventing.dispatcher.decide.envelope import Outgoing
from quintet.eventing.dispatcher.sinks import Sinks
from quintet.nats.client import Client
from quintet.nats.errors import LoginRefused, Unreachable
from quintet.nats.options import Options
from quintet.web.connection import Target, connect
from quintet.web.happy_eyeballs import connect_first
from quintet.web.http_client import HttpClient

DEAD, LIVE = "127.0.0.2", "127.0.0.1"


@contextlib.contextmanager
def a_dead_address(port: int) -> Iterator[None]:
    """Connections to it are never answered: its backlog is full, as behind a firewall that drops them."""
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
    """Says something first, and answers whatever it is told; with `once` it goes then."""

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


async def test_a_name_whose_first_address_is_dead_is_reached_over_http(monkeypatch):
    loop = asyncio.get_running_loop()

    async def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        family = socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (each, port)) for each in (DEAD, LIVE)]

    async with a_live_address(OK) as port:
        with a_dead_address(port):
            monkeypatch.setattr(loop, "getaddrinfo", resolve)
            async with asyncio.timeout(10):
                connection = await connect(Target(f"http://api.example:{port}", None))
            connection.close()


async def test_a_sink_whose_first_address_is_dead_gets_its_event(monkeypatch):
    async def resolve(host: str, port: int) -> list[str]:
        return [DEAD, LIVE]

    monkeypatch.setattr(sinks_module, "resolve", resolve)
    monkeypatch.setattr(sinks_module, "judge", lambda *_: "")
    async with a_live_address(OK) as port:
        with a_dead_address(port):
            sinks = Sinks(SystemClock(), Limits.of(), 5.0)
            answer = await sinks.post(f"http://sink.example:{port}/", Outgoing({}, b"{}"))
            sinks.close()
            assert answer.status == 200, answer


async def test_a_server_whose_first_address_is_dead_is_called():
    async with a_live_address(OK) as port:
        with a_dead_address(port):
            caller = HttpClient(f"http://mesh.example:{port}/", SystemClock(), 5.0, (DEAD, LIVE))
            assert (await caller.post({}, b"{}")).status == 200
            caller.close()


@pytest.mark.parametrize("addresses", [(DEAD, LIVE), (LIVE, DEAD)], ids=["dead first", "live first"])
async def test_a_nats_server_with_a_dead_address_is_reached(addresses):
    greeting = b'INFO {"server_id":"X","max_payload":1048576,"headers":true}\r\n'
    async with a_live_address(b"PONG\r\n", greeting) as port:
        with a_dead_address(port):
            options = Options(f"nats://nats.example:{port}", addresses=addresses, connect_seconds=5.0)
            async with Client(options, SystemClock()) as client:
                assert client.connected


async def test_a_nats_server_that_accepts_and_says_nothing_does_not_hide_another():
    greeting = b'INFO {"server_id":"X","max_payload":1048576,"headers":true}\r\n'
    async with a_live_address(b"PONG\r\n", greeting) as port:
        with socket.create_server((DEAD, port)):
            for _ in range(4):  # in whichever order
                options = Options(f"nats://nats.example:{port}", addresses=(DEAD, LIVE), connect_seconds=5.0)
                async with Client(options, SystemClock()) as client:
                    assert client.connected


async def test_a_login_that_is_refused_ends_the_race():
    greeting = b'INFO {"server_id":"X","max_payload":1048576,"headers":true}\r\n'
    async with a_live_address(b"-ERR 'Authorization Violation'\r\n", greeting, once=True) as port:
        options = Options(f"nats://nats.example:{port}", addresses=(LIVE, LIVE), connect_seconds=5.0)
        with pytest.raises(LoginRefused):
            await Client(options, SystemClock()).__aenter__()


async def test_a_nats_server_of_which_no_address_answers_is_unreachable():
    with socket.create_server((DEAD, 0)) as silent:
        port = silent.getsockname()[1]
        options = Options(f"nats://nats.example:{port}", addresses=(DEAD, DEAD), connect_seconds=0.3)
        with pytest.raises(Unreachable, match=r"within 0\.3 s"):
            await Client(options, SystemClock()).__aenter__()


class Boom(Exception):
    """No address that fails, but a mistake."""


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["ok", "fails", "hangs", "boom"])), min_size=1))
def test_whoever_is_first_wins_and_nothing_is_left_open(fates):
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
