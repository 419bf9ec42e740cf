"""Events over HTTP to sinks: connections are kept and used again, answers and waits are bounded.

Called by `delivery` with one event at a time. A redirect is not followed: it is an answer like any
other that is not 2xx. A sink is a Service, and a Service can lead anywhere by name, so the addresses
that its name stands for are judged before one of them is called.
"""

import asyncio
import contextlib
import functools
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from quintet.apis.eventingbackend.addresses import Limits, judge
from quintet.clock import Clock, Timer
from quintet.eventing.dispatcher.decide.envelope import Outgoing
from quintet.eventing.dispatcher.decide.policy import Answer
from quintet.web.connection import Connection, Target, dial

MOST_IDLE: Final = 512
"""Connections to one sink that wait for the next event: as many as there may be events in hand."""
IDLE_SECONDS: Final = 10.0
LONGEST_ANSWER: Final = 64 * 1024
"""Bytes of an answer that are read; one that says more costs its connection."""


class Sink(NamedTuple):
    """Where a URL leads, and the first lines of every request there."""

    origin: tuple[str, int, bool]
    """Host, port, and whether it speaks TLS."""
    start: str


@functools.lru_cache(maxsize=4096)
def sink_of(url: str) -> Sink:
    """Take a URL apart, once."""
    parts = urlsplit(url)
    host, tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if tls else 80)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    name = host if port == (443 if tls else 80) else f"{host}:{port}"
    return Sink((host, port, tls), f"POST {path} HTTP/1.1\r\nhost: {name}\r\n")


@dataclass(slots=True)
class Sinks:
    """Sends events; one for a whole process."""

    clock: Clock
    limits: Limits
    answer_seconds: float
    places: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Hosts that are reached elsewhere: on a developer's machine no name of a Service resolves."""
    _idle: dict[tuple[str, int, bool], list[Connection]] = field(default_factory=dict)
    _tls: ssl.SSLContext | None = None
    _sweeper: Timer | None = None

    async def post(self, url: str, event: Outgoing) -> Answer:
        """Try to deliver an event once. Whatever goes wrong is an answer, never an exception."""
        sink = sink_of(url)
        request = _request(sink, event)
        try:
            async with asyncio.timeout(self.answer_seconds):
                return await self._post(sink, request)
        except TimeoutError:
            return Answer(0, f"no answer within {self.answer_seconds:g} s")
        except _Refused as refusal:
            return Answer(0, str(refusal))
        except socket.gaierror as error:
            return Answer(0, f"the name {sink.origin[0]} cannot be resolved: {error.strerror}")
        except (OSError, ssl.CertificateError) as error:
            return Answer(0, f"no connection: {error.strerror or error}")

    def close(self) -> None:
        """End the connections that wait."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for waiting in self._idle.values():
            for connection in waiting:
                connection.close()
        self._idle.clear()

    async def _post(self, sink: Sink, request: bytes) -> Answer:
        while (connection := self._waiting(sink.origin)) is not None:
            # A sink may end a connection in the moment in which it is used: that is no failure of the sink.
            with contextlib.suppress(OSError):
                return await self._exchange(sink, connection, request)
        return await self._exchange(sink, await self._open(sink.origin), request)

    async def _exchange(self, sink: Sink, connection: Connection, request: bytes) -> Answer:
        try:
            connection.send(request)
            status = await connection.head()
            await self._discard(connection)
        except BaseException:
            connection.close()
            raise
        self._keep(sink.origin, connection)
        return Answer(status)

    async def _discard(self, connection: Connection) -> None:
        """Read the rest of an answer, which nobody wants, so that the connection can be used again."""
        read = 0
        async for piece in connection.pieces(self.answer_seconds):
            read += len(piece)
            if read > LONGEST_ANSWER:
                connection.close()
                return

    def _waiting(self, origin: tuple[str, int, bool]) -> Connection | None:
        """The connection that was used last: the others may then grow old."""
        waiting = self._idle.get(origin)
        while waiting:
            connection = waiting.pop()
            if connection.reusable and not self._is_old(connection):
                return connection
            connection.close()
        return None

    def _keep(self, origin: tuple[str, int, bool], connection: Connection) -> None:
        waiting = self._idle.setdefault(origin, [])
        if not connection.reusable or len(waiting) >= MOST_IDLE:
            connection.close()
            return
        connection.idle_since = self.clock.monotonic()
        waiting.append(connection)
        if self._sweeper is None:
            self._sweeper = self.clock.call_later(IDLE_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """End what waited too long; once nothing waits any more, there is nothing to sweep."""
        for origin, waiting in list(self._idle.items()):
            for connection in waiting:
                if self._is_old(connection) or not connection.reusable:
                    connection.close()
            self._idle[origin] = [each for each in waiting if not each.lost]
            if not self._idle[origin]:
                del self._idle[origin]
        self._sweeper = self.clock.call_later(IDLE_SECONDS, self._sweep) if self._idle else None

    def _is_old(self, connection: Connection) -> bool:
        return self.clock.monotonic() - connection.idle_since >= IDLE_SECONDS

    async def _open(self, origin: tuple[str, int, bool]) -> Connection:
        host, port, tls = origin
        if place := self.places.get(host):
            addresses, port = [place[0]], place[1]
        else:
            addresses = await _resolved(host, port)
            if refusal := judge(host, addresses, self.limits):
                raise _Refused(refusal)
        if not addresses:
            raise _Refused(f"the name {host} has no address")
        context = self._context() if tls else None
        named = f"[{host}]" if ":" in host else host
        url = f"{'https' if tls else 'http'}://{named}:{port}"
        return await dial(Target(url, context, host, addresses=tuple(addresses)))

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


class _Refused(Exception):
    """A sink that is never called."""


async def _resolved(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _request(sink: Sink, event: Outgoing) -> bytes:
    lines = [sink.start]
    lines += [f"{name}: {value}\r\n" for name, value in event.headers.items()]
    lines.append(f"content-length: {len(event.body)}\r\n\r\n")
    return "".join(lines).encode("latin-1") + event.body
