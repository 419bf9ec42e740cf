"""A pool of client connections: idle connections are kept per origin and reused, last in, first out.

The pool does not limit requests in flight; its users do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, NamedTuple

from quintet.clock import Clock, Timer
from quintet.web.connection import Connection

MAX_BODY_BYTES: Final = 64 << 10
"""Bytes of a response body that `ConnectionPool.exchange` returns; a longer body closes its connection."""
MAX_BODY_SECONDS: Final = 5.0
"""How long `ConnectionPool.exchange` waits for the rest of a body; a slower body closes its connection."""

Connect = Callable[[], Awaitable[Connection]]


class HttpResponse(NamedTuple):
    """A response to a request that we sent; a body that is long, slow or broken is cut."""

    status: int
    body: bytes
    retry_after: str | None


class ConnectionPool:
    """Keeps up to `max_idle` connections per origin open for `idle_seconds` after their last use."""

    def __init__(self, clock: Clock, *, idle_seconds: float, max_idle: int) -> None:
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._max_idle = max_idle
        self._idle: dict[Hashable, list[Connection]] = {}
        self._in_use: set[Connection] = set()
        self._timer: Timer | None = None

    async def acquire(self, origin: Hashable, connect: Connect) -> Connection:
        """Return an idle connection, or open one; give it back with `release`."""
        connection = self._take_idle(origin) or await connect()
        self._in_use.add(connection)
        return connection

    def release(self, origin: Hashable, connection: Connection) -> None:
        """Keep a connection for the next request; close it if it cannot be reused or too many are idle."""
        self._in_use.discard(connection)
        if not connection.is_reusable or len(idle := self._idle.setdefault(origin, [])) >= self._max_idle:
            connection.close()
            return
        connection.idle_since = self._clock.monotonic()
        idle.append(connection)
        if self._timer is None:
            self._timer = self._clock.call_later(self._idle_seconds, self._close_expired)

    async def exchange(
        self, origin: Hashable, connect: Connect, request: bytes, timeout: float | None = None
    ) -> HttpResponse:
        """Send a request and wait for its response; raises OSError, and TimeoutError without a timely status.

        A server may close an idle connection at the moment in which it is reused. If nothing of a response
        was received, the request is then sent once more on a new connection, so use this only for requests
        that may be repeated.
        """
        async with asyncio.timeout(timeout):
            connection = await self._send(origin, connect, request)
        # From here on the server has decided: a body that stalls or breaks does not change the status.
        try:
            return HttpResponse(connection.status, await _read_body(connection), connection.retry_after)
        finally:
            self.release(origin, connection)

    def close_idle(self) -> None:
        """Close the connections that are not in use."""
        for connection in (each for idle in self._idle.values() for each in idle):
            connection.close()
        self._idle.clear()

    def close(self) -> None:
        """Close all connections, including those in use."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in self._in_use:
            connection.close()
        self.close_idle()

    async def _send(self, origin: Hashable, connect: Connect, request: bytes) -> Connection:
        """Send a request; return its connection as soon as that has the status of the response."""
        reused = self._take_idle(origin)
        if reused is not None:
            try:
                return await self._wait_for_status(origin, reused, request)
            except OSError:
                if reused.has_received:
                    raise
        return await self._wait_for_status(origin, await connect(), request)

    async def _wait_for_status(self, origin: Hashable, connection: Connection, request: bytes) -> Connection:
        self._in_use.add(connection)
        try:
            connection.send(request)
            await connection.head()
        except BaseException:
            self.release(origin, connection)
            raise
        return connection

    def _take_idle(self, origin: Hashable) -> Connection | None:
        """Return the connection that was used last, so that the others can expire."""
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if connection.is_reusable and not self._is_expired(connection):
                return connection
            connection.close()
        return None

    def _close_expired(self) -> None:
        for origin, idle in list(self._idle.items()):
            for connection in idle:
                if self._is_expired(connection):
                    connection.close()
            self._idle[origin] = [each for each in idle if not each.lost]
            if not self._idle[origin]:
                del self._idle[origin]
        self._timer = self._clock.call_later(self._idle_seconds, self._close_expired) if self._idle else None

    def _is_expired(self, connection: Connection) -> bool:
        return self._clock.monotonic() - connection.idle_since >= self._idle_seconds


async def _read_body(connection: Connection) -> bytes:
    """Return the start of a body; nothing if it does not arrive whole and in time."""
    if connection.is_complete:
        return await connection.body_start(MAX_BODY_BYTES)
    try:
        async with asyncio.timeout(MAX_BODY_SECONDS):
            return await connection.body_start(MAX_BODY_BYTES)
    except OSError:
        return b""
