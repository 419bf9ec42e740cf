"""HTTP to one API server: TLS, credentials, deadlines, bounded concurrency, one error tree.

Called by `client`; the bytes are `connection`'s. A request is answered, or raises one of
`errors`. Nothing is repeated except once after renewing refused credentials: whether a
request may be sent again is for the caller to know.
"""

import asyncio
import contextlib
import functools
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlencode, urlsplit

from prometheus_client import Counter, Histogram

from quintet import __version__
from quintet.kube.config import ClusterConfig
from quintet.kube.errors import (
    DeadlineExceeded,
    Unauthorized,
    Unreachable,
    UntrustedServer,
    WriteFenced,
    error_for,
)
from quintet.observe import metrics
from quintet.web.connection import Connection, Target, dial, proxy_header

Fence = Callable[[], bool]
"""Whether this process may still write."""

JSON = "application/json"
# Compression costs both sides more than it saves between neighbours.
_HEADERS = f"User-Agent: quintet/{__version__}\r\nAccept-Encoding: identity\r\nAccept: "
_PATH = "/:@!$&'()*+,;=~-._"
_KEEP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Call:
    """One request, as it may have to be sent twice."""

    method: str
    path: str
    params: Mapping[str, str] | None = None
    body: bytes | None = None
    accept: str = JSON
    content_type: str = JSON
    fence: Fence | None = None
    patience: float = 0.0
    stream: bool = False
    acting_as: str = ""

    def __str__(self) -> str:
        return f"{'WATCH' if self.stream else self.method} {self.path}"


class Transport:
    """Connections to one API server. Use as an async context manager."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        max_requests: int = 32,
        timeout: float = 30.0,
        connect_timeout: float = 10.0,
    ) -> None:
        self.config = config
        url = urlsplit(config.server)
        self._host = url.netloc.rpartition("@")[2]
        tls = config.ssl_context() if url.scheme == "https" else None
        self._target = Target(config.server, tls, config.tls_server_name, config.proxy_url)
        # What stands in front of every path, and in every head.
        self._base = url.path.rstrip("/")
        self._constant = f" HTTP/1.1\r\nHost: {self._host}\r\n"
        if self._target.forwarded:
            self._base = f"http://{self._host}{self._base}"
            self._constant += proxy_header(config.proxy_url or "")
        self._constant += _HEADERS
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        # Watches stay open for minutes, so only short requests count against the bound.
        self._slots = asyncio.Semaphore(max_requests)
        self._idle: list[Connection] = []
        self._in_use: set[Connection] = set()

    def apart(self, *, timeout: float) -> "Transport":
        """Connections of their own to the same server, with the same credentials."""
        return Transport(self.config, timeout=timeout, connect_timeout=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections."""
        for connection in (*self._idle, *self._in_use):
            connection.close()
        self._idle.clear()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        accept: str = JSON,
        content_type: str = JSON,
        fence: Fence | None = None,
        acting_as: str = "",
    ) -> bytes:
        """Send one request, on our own behalf or as somebody else; return the body of its answer."""
        call = _Call(
            method, path, params, body, accept, content_type, fence, self._timeout, acting_as=acting_as
        )
        await self._take_slot(call)
        try:
            _, answer = await self._send(call)
        finally:
            self._slots.release()
        return answer

    async def _take_slot(self, call: _Call) -> None:
        """Wait for one of the slots, but not for ever: those who have them may hang."""
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(self._timeout):
                await self._slots.acquire()
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"{call}: not sent, because too many requests to {self._host} are waiting for their answers"
            ) from error

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        idle_timeout: float,
        accept: str = JSON,
        acting_as: str = "",
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Open a long answer; iterate over batches of whole lines as they arrive.

        A connection that stays silent for `idle_timeout` counts as dead: a peer that
        vanished without a word would otherwise never be missed.
        """
        call = _Call(
            "GET", path, params, accept=accept, patience=idle_timeout, stream=True, acting_as=acting_as
        )
        connection, _ = await self._send(call)
        try:
            yield self._lines(call, connection.pieces(idle_timeout))
        finally:
            self._give_back(connection)

    async def _send(self, call: _Call) -> tuple[Connection, bytes]:
        """A good answer; whole, unless it is a stream. Refused credentials are renewed once."""
        credentials = self.config.credentials
        header = await credentials.header()
        try:
            return await self._once(call, header)
        except Unauthorized as error:
            if not await credentials.renew(header):
                error.expiry = self.config.expiry_problem()
                raise
        return await self._once(call, await credentials.header())

    async def _once(self, call: _Call, header: str | None) -> tuple[Connection, bytes]:
        loop = asyncio.get_running_loop()
        started = loop.time()
        connection, code, kept, answer = None, "error", False, b""
        try:
            with self._translated(call):
                async with asyncio.timeout(call.patience):
                    connection = await self._connection()
                    request = self._request(call, header)
                    # Between this look and the socket nothing can hold us up: a process that was
                    # frozen before, and wakes up after its lease ran out, sends nothing at all.
                    if call.fence is not None and not call.fence():
                        raise WriteFenced(f"{call}: leadership ended before the write was sent")
                    connection.send(request)
                    kept = call.stream and await connection.head() < 300
                    if not kept:
                        answer = await connection.body()
            code = str(connection.status)
            if connection.status < 300:
                return connection, answer
            raise error_for(str(call), connection.status, answer, connection.retry_after)
        finally:
            if connection is not None and not kept:
                self._give_back(connection)
            counted, timed = _series(code, call.method, self._host)
            counted.inc()
            timed.observe(loop.time() - started)

    async def _connection(self) -> Connection:
        """The one that was used last, or a new one: those that are not needed grow old and end."""
        while self._idle:
            connection = self._idle.pop()
            if (
                not connection.lost
                and asyncio.get_running_loop().time() - connection.idle_since < _KEEP_SECONDS
            ):
                break
            connection.close()
        else:
            async with asyncio.timeout(self._connect_timeout):
                connection = await dial(self._target)
        self._in_use.add(connection)
        return connection

    def _give_back(self, connection: Connection) -> None:
        self._in_use.discard(connection)
        if connection.reusable:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.close()

    def _request(self, call: _Call, header: str | None) -> bytes:
        """All bytes of a request."""
        query = f"?{urlencode(call.params)}" if call.params else ""
        lines = [
            f"{call.method} {self._base}{quote(call.path, safe=_PATH)}{query}{self._constant}{call.accept}"
        ]
        if header:
            lines.append(f"Authorization: {header}")
        if call.acting_as:
            lines.append(f"Impersonate-User: {call.acting_as}")
        if call.body is None:
            return "\r\n".join((*lines, "\r\n")).encode("latin-1")
        lines += (f"Content-Type: {call.content_type}", f"Content-Length: {len(call.body)}", "\r\n")
        return "\r\n".join(lines).encode("latin-1") + call.body

    async def _lines(self, call: _Call, pieces: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
        """Whole lines, in batches as the network delivers them; linear however long a line is."""
        partial: list[bytes] = []
        while True:
            with self._translated(call):
                chunk = await anext(pieces, b"")
            if not chunk:
                return
            *lines, rest = chunk.split(b"\n")
            if lines:
                lines[0] = b"".join((*partial, lines[0]))
                partial.clear()
                yield [line for line in lines if line]
            if rest:
                partial.append(rest)

    @contextlib.contextmanager
    def _translated(self, call: _Call) -> Iterator[None]:
        """Every failure of the layers below as one of our tree."""
        try:
            yield
        except TimeoutError as error:
            raise DeadlineExceeded(f"{call}: no answer from {self._host} in time") from error
        except ssl.SSLCertVerificationError as error:
            raise UntrustedServer(f"{self._host}: {error.verify_message or error}") from error
        except OSError as error:
            raise Unreachable(f"{call}: {self._host}: {_in_words(error)}") from error


@functools.cache
def _series(code: str, method: str, host: str) -> tuple[Counter, Histogram]:
    """Finding a series by its labels takes longer than to count in it."""
    return (
        metrics.client_requests.labels(code, method, host),
        metrics.client_seconds.labels(method, host),
    )


def _in_words(error: OSError) -> str:
    match error:
        case ssl.SSLError(reason=str(words)):
            return words.lower().replace("_", " ")
        case socket.gaierror(strerror=str(words)):
            return words.lower()
        case OSError(errno=int(number)):
            return os.strerror(number).lower()
    # A name with several addresses, none of which answers: asyncio tells all in one text.
    if found := re.search(r"\[Errno (\d+)\]", str(error)):
        return os.strerror(int(found[1])).lower()
    return str(error) or type(error).__name__
