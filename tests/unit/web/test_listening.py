"""A server that stops while somebody connects: the connection is answered or ends, and is not forgotten."""

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from kit.eventually import eventually
from kit.http.raw import echo, get
from quintet.clock import SystemClock
from quintet.web.server import Server, ServerLimits

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS)
def run(request) -> Callable[[Awaitable[None]], None]:
    """Runs something in each of the loops that servers have."""

    def run(what: Awaitable[None]) -> None:
        gc.disable()  # so that all objects of the test stay in the youngest generation
        try:
            with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
                runner.run(what)
            gc.collect(0)  # a socket that nobody closed raises a ResourceWarning here
        finally:
            gc.enable()

    return run


async def listening() -> tuple[Server, int]:
    server = Server(echo, ServerLimits(), SystemClock())
    return server, await server.start("127.0.0.1", 0)


async def ask(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(get())
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize("rounds", range(12))
def test_whoever_connects_while_a_server_stops_is_answered_or_let_go(run, rounds):
    async def story() -> None:
        server, port = await listening()
        asking = asyncio.create_task(ask(port))
        for _ in range(rounds):
            await asyncio.sleep(0)
        await server.stop(grace=5)
        try:
            answer = await asyncio.wait_for(asking, 20)
        except ConnectionError:
            return  # it was not taken in
        assert answer.startswith(b"HTTP/1.1 200 "), answer

    run(story())


async def inside(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Somebody who has connected and said nothing yet."""
    connected = await asyncio.open_connection("127.0.0.1", await server.start("127.0.0.1", 0))

    def taken_in() -> None:
        assert server.connections, "the server has not noticed yet"

    await eventually(taken_in)
    return connected


def test_whoever_is_inside_is_answered_even_if_the_question_comes_after_the_end_of_listening(run):
    async def story() -> None:
        server = Server(echo, ServerLimits(), SystemClock())
        reader, writer = await inside(server)
        stopping = asyncio.create_task(server.stop(grace=20))
        await asyncio.sleep(0)
        assert server.stopping
        writer.write(get())
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        assert b"Connection: close" in answer, answer
        writer.close()
        await stopping

    run(story())


def test_whoever_is_inside_and_asks_nothing_does_not_keep_a_server_from_stopping(run):
    async def story() -> None:
        server = Server(echo, ServerLimits(linger_seconds=0.01), SystemClock())
        reader, writer = await inside(server)
        await asyncio.wait_for(server.stop(grace=600), 20)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()

    run(story())
