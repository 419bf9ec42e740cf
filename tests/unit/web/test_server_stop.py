"""A server that stops while a client connects: the client gets a response or a closed connection."""

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
    """Run a coroutine in each event loop implementation."""

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
def test_client_that_connects_during_stop_gets_response_or_is_closed(run, rounds):
    async def story() -> None:
        server, port = await listening()
        asking = asyncio.create_task(ask(port))
        for _ in range(rounds):
            await asyncio.sleep(0)
        await server.stop(grace=5)
        try:
            answer = await asyncio.wait_for(asking, 20)
        except ConnectionError:
            return  # it was not accepted
        assert answer.startswith(b"HTTP/1.1 200 "), answer

    run(story())


async def inside(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a client that is connected and has sent nothing."""
    connected = await asyncio.open_connection("127.0.0.1", await server.start("127.0.0.1", 0))

    def is_accepted() -> None:
        assert server.connections, "the server has not noticed yet"

    await eventually(is_accepted)
    return connected


def test_accepted_client_gets_response_to_a_request_after_stop(run):
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


def test_idle_accepted_client_does_not_delay_stop(run):
    async def story() -> None:
        server = Server(echo, ServerLimits(linger_seconds=0.01), SystemClock())
        reader, writer = await inside(server)
        await asyncio.wait_for(server.stop(grace=600), 20)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()

    run(story())
