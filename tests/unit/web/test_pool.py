"""Which connections a pool reuses, keeps and closes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from kit.clock import VirtualClock
from kit.http.raw import Place, a_server, echo, get
from quintet.web.connection import Connection, ConnectionTarget, connect
from quintet.web.messages import Request, Response
from quintet.web.pool import MAX_BODY_BYTES, ConnectionPool


@contextlib.asynccontextmanager
async def a_pool(place: Place, clock: VirtualClock, max_idle: int = 8) -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool(clock, idle_seconds=10.0, max_idle=max_idle)
    try:
        yield pool
    finally:
        pool.close()


def connector(place: Place):
    async def open_connection() -> Connection:
        return await connect(ConnectionTarget(f"http://127.0.0.1:{place.port}", None))

    return open_connection


async def test_pool_reuses_the_connection_that_was_released_last():
    async with a_server(echo) as place, a_pool(place, VirtualClock()) as pool:
        first, second = [await pool.acquire("a", connector(place)) for _ in range(2)]
        pool.release("a", first)
        pool.release("a", second)
        assert await pool.acquire("a", connector(place)) is second
        assert await pool.acquire("a", connector(place)) is first


async def test_pool_does_not_share_connections_between_origins():
    async with a_server(echo) as place, a_pool(place, VirtualClock()) as pool:
        first = await pool.acquire("a", connector(place))
        pool.release("a", first)
        assert await pool.acquire("b", connector(place)) is not first


async def test_pool_closes_released_connections_beyond_the_idle_limit():
    async with a_server(echo) as place, a_pool(place, VirtualClock(), max_idle=1) as pool:
        first, second = [await pool.acquire("a", connector(place)) for _ in range(2)]
        pool.release("a", first)
        pool.release("a", second)
        assert (first.lost, second.lost) == (False, True)


async def test_pool_closes_expired_connections_without_further_requests():
    clock = VirtualClock()
    async with a_server(echo) as place, a_pool(place, clock) as pool:
        connection = await pool.acquire("a", connector(place))
        pool.release("a", connection)
        await clock.advance(21.0)
        assert connection.lost


async def test_pool_closes_a_connection_whose_exchange_is_cancelled():
    pending = asyncio.Event()

    async def never(request: Request) -> Response:
        pending.set()
        await asyncio.Event().wait()
        return Response()

    async with a_server(never) as place, a_pool(place, VirtualClock()) as pool:
        exchange = asyncio.create_task(pool.exchange("a", connector(place), get()))
        await pending.wait()
        exchange.cancel()
        await asyncio.gather(exchange, return_exceptions=True)
        assert pool._take_idle("a") is None
    for task in asyncio.all_tasks():
        if "_await" in repr(task):
            task.cancel()


async def test_closing_a_pool_also_closes_connections_in_use():
    async with a_server(echo) as place, a_pool(place, VirtualClock()) as pool:
        connection = await pool.acquire("a", connector(place))
        pool.close()
        assert connection.lost


async def test_exchange_cuts_a_long_body_and_closes_its_connection():
    def handler(request: Request) -> Response:
        return Response(200, b"x" * (16 * MAX_BODY_BYTES))

    async with a_server(handler) as place, a_pool(place, VirtualClock()) as pool:
        response = await pool.exchange("a", connector(place), get())
        assert (response.status, response.body) == (200, b"x" * MAX_BODY_BYTES)
        assert pool._take_idle("a") is None
