"""A server that stops while somebody connects: the connection ends, and is not forgotten."""

import asyncio
import gc

import pytest

from kit.rawhttp import echo, get
from quintet.runtime.clock import SystemClock
from quintet.web.server import Limits, Server


@pytest.mark.parametrize("rounds", range(9))
async def test_whoever_connects_while_a_server_stops_is_answered_or_let_go(rounds):
    server = Server(echo, Limits(), SystemClock())
    port = await server.start("127.0.0.1", 0)

    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(get())
            return await reader.read()
        finally:
            writer.close()

    asking = asyncio.create_task(ask())
    for _ in range(rounds):
        await asyncio.sleep(0)
    await server.stop(grace=0.1)
    try:
        answer = await asyncio.wait_for(asking, 20)
    except ConnectionError:
        answer = b""
    assert answer == b"" or answer.startswith(b"HTTP/1.1 200 "), answer
    gc.collect()  # a socket that was forgotten is an error here
