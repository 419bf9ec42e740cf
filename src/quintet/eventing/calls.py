"""HTTP requests to one server outside, over connections that are kept; answers and waits are bounded.

Used for EventMesh: by the publisher proxy for events and tokens, by the controller for its probe.
A redirect is not followed: it is an answer like any other.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from quintet.clock import Clock
from quintet.web.connection import Connection, Target, dial

LONGEST_ANSWER: Final = 64 * 1024
MOST_IDLE: Final = 32
IDLE_SECONDS: Final = 30.0


class CallError(Exception):
    """No answer; says why."""


class CallTimeout(CallError):
    """No answer in time. Whether the request was done is unknown."""


class Called(NamedTuple):
    """An answer; of a long body only the beginning."""

    status: int
    body: bytes
    retry_after: str | None


class Caller:
    """Posts to one URL."""

    def __init__(self, url: str, clock: Clock, seconds: float, addresses: tuple[str, ...] = ()) -> None:
        """Addresses: connect to these only, instead of resolving the host."""
        parts = urlsplit(url)
        self.host = parts.hostname or ""
        tls = parts.scheme == "https"
        port = parts.port or (443 if tls else 80)
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        named = f"[{self.host}]" if ":" in self.host else self.host
        self._start = f"POST {path} HTTP/1.1\r\nhost: {named}:{port}\r\n"
        context = ssl.create_default_context() if tls else None
        self._target = Target(f"{parts.scheme}://{named}:{port}", context, self.host, addresses=addresses)
        self._clock = clock
        self._seconds = seconds
        self._idle: list[Connection] = []

    async def post(self, headers: Mapping[str, str], body: bytes) -> Called:
        """Send a request and wait for its answer; raises `CallError`."""
        lines = [self._start]
        lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
        lines.append(f"content-length: {len(body)}\r\n\r\n")
        request = "".join(lines).encode("latin-1") + body
        try:
            async with asyncio.timeout(self._seconds):
                return await self._posted(request)
        except TimeoutError:
            raise CallTimeout(f"{self.host} did not answer within {self._seconds:g} s") from None
        except socket.gaierror as error:
            raise CallError(f"the name {self.host} cannot be resolved: {error.strerror}") from error
        except ssl.SSLCertVerificationError as error:
            raise CallError(
                f"the certificate of {self.host} is not trusted: {error.verify_message}"
            ) from error
        except OSError as error:
            raise CallError(f"no connection to {self.host}: {error.strerror or error}") from error

    def close(self) -> None:
        """End the connections that wait."""
        while self._idle:
            self._idle.pop().close()

    async def _posted(self, request: bytes) -> Called:
        while (connection := self._waiting()) is not None:
            # A server may end a connection in the moment in which it is used: that is no failure.
            with contextlib.suppress(OSError):
                return await self._exchange(connection, request)
        return await self._exchange(await dial(self._target), request)

    async def _exchange(self, connection: Connection, request: bytes) -> Called:
        try:
            connection.send(request)
            status = await connection.head()
            body = await self._beginning(connection)
        except BaseException:
            connection.close()
            raise
        if connection.reusable and len(self._idle) < MOST_IDLE:
            connection.idle_since = self._clock.monotonic()
            self._idle.append(connection)
        else:
            connection.close()
        return Called(status, body, connection.retry_after)

    async def _beginning(self, connection: Connection) -> bytes:
        found = bytearray()
        async for piece in connection.pieces(self._seconds):
            found += piece
            if len(found) > LONGEST_ANSWER:
                connection.close()
                break
        return bytes(found[:LONGEST_ANSWER])

    def _waiting(self) -> Connection | None:
        oldest = self._clock.monotonic() - IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and connection.idle_since > oldest:
                return connection
            connection.close()
        return None
