"""HTTP requests to one API server: TLS, credentials, timeouts, bounded concurrency, typed errors.

A request returns its response or raises one of `kube.errors`. The transport retries only once, after a 401
and with renewed credentials; other retries are the caller's decision.
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
from quintet.clock import Clock, SystemClock
from quintet.kube.config import ClusterConfig
from quintet.kube.errors import (
    DeadlineExceeded,
    Unauthorized,
    Unreachable,
    UntrustedServer,
    WriteFenced,
    error_for,
)
from quintet.kube.identity import Identity
from quintet.kube.target import TargetSource
from quintet.observe import metrics
from quintet.web.connection import Connection, connect, proxy_authorization
from quintet.web.pool import ConnectionPool

Fence = Callable[[], bool]
"""Returns whether this process may still write, because it is the leader."""

JSON = "application/json"
# Within a cluster, compression costs more time than it saves.
_HEADERS = f"User-Agent: quintet/{__version__}\r\nAccept-Encoding: identity\r\nAccept: "
_PATH = "/:@!$&'()*+,;=~-._"
_IDLE_SECONDS = 60.0
_UNAUTHORIZED = 401
_ORIGIN = "api-server"  # the pool has connections to one server only


@dataclass(frozen=True, slots=True)
class _Call:
    """One request; kept because it may be sent twice."""

    method: str
    path: str
    params: Mapping[str, str] | None = None
    body: bytes | None = None
    accept: str = JSON
    content_type: str = JSON
    fence: Fence | None = None
    timeout: float = 0.0
    stream: bool = False
    impersonate: str = ""

    def __str__(self) -> str:
        return f"{'WATCH' if self.stream else self.method} {self.path}"


class Transport:
    """Sends requests to one API server. Use it as an async context manager."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        max_requests: int = 32,
        timeout: float = 30.0,
        connect_timeout: float = 10.0,
        identity: Identity | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.config = config
        self._clock = clock or SystemClock()
        self.identity = identity or Identity(config.source, self._clock)
        """Whether the server accepts our credentials."""
        url = urlsplit(config.server)
        self._host = url.netloc.rpartition("@")[2]
        self._source = TargetSource(config, self._clock)
        target = self._source.current()
        # The prefix of every path, and the constant part of every request head.
        self._base = url.path.rstrip("/")
        self._constant = f" HTTP/1.1\r\nHost: {self._host}\r\n"
        if target.is_forwarded:
            self._base = f"http://{self._host}{self._base}"
            self._constant += proxy_authorization(config.proxy_url or "")
        self._constant += _HEADERS
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        # Watches stay open for minutes, so only short requests count against the limit.
        self._slots = asyncio.Semaphore(max_requests)
        # Names from users may be UTF-8.
        self._impersonation = [
            f"{name}: {value.encode().decode('latin-1')}" for name, value in config.impersonation
        ]
        self._pool = ConnectionPool(self._clock, idle_seconds=_IDLE_SECONDS, max_idle=max_requests)

    def separate(self, *, timeout: float) -> "Transport":
        """Return a transport with separate connections to the same server, with the same credentials."""
        return Transport(
            self.config,
            timeout=timeout,
            connect_timeout=timeout,
            identity=self.identity,
            clock=self._clock,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        self._pool.close()

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
        impersonate: str = "",
    ) -> bytes:
        """Send one request, optionally as another user, and return the response body."""
        call = _Call(
            method, path, params, body, accept, content_type, fence, self._timeout, impersonate=impersonate
        )
        await self._acquire_slot(call)
        try:
            _, body_bytes = await self._send(call)
        finally:
            self._slots.release()
        return body_bytes

    async def _acquire_slot(self, call: _Call) -> None:
        """Wait for a slot, but no longer than the timeout: the requests that hold the slots may hang."""
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(self._timeout):
                await self._slots.acquire()
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"{call}: not sent, because too many requests to {self._host} are waiting for a response"
            ) from error

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        idle_timeout: float,
        accept: str = JSON,
        impersonate: str = "",
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Open a streaming response; iterate over batches of complete lines as they arrive.

        A connection without data for `idle_timeout` counts as dead: otherwise a server that
        vanished without closing it would never be noticed.
        """
        call = _Call(
            "GET", path, params, accept=accept, timeout=idle_timeout, stream=True, impersonate=impersonate
        )
        connection, _ = await self._send(call)
        try:
            yield self._lines(call, connection.pieces(idle_timeout))
        finally:
            self._pool.release(_ORIGIN, connection)

    async def _send(self, call: _Call) -> tuple[Connection, bytes]:
        """Return a successful response, complete unless it is a stream; renew rejected credentials once."""
        credentials = self.config.credentials
        header = await credentials.header()
        try:
            return await self._send_once(call, header)
        except Unauthorized as error:
            renewed = await credentials.renew(header)
            if self._source.renew():
                self._pool.close_idle()  # they are authenticated with the old certificate
                renewed = True
            if not renewed:
                error.expiry = self._source.config.expiry_problem()
                raise
        return await self._send_once(call, await credentials.header())

    async def _send_once(self, call: _Call, header: str | None) -> tuple[Connection, bytes]:
        loop = asyncio.get_running_loop()
        started = loop.time()
        connection, code, streaming, body = None, "error", False, b""
        try:
            with self._translate_errors(call):
                async with asyncio.timeout(call.timeout):
                    connection = await self._pool.acquire(_ORIGIN, self._connect)
                    request = self._encode(call, header)
                    # Nothing can pause the process between this check and the socket: a process that was
                    # frozen before, and wakes up after its lease has expired, sends nothing.
                    if call.fence is not None and not call.fence():
                        raise WriteFenced(f"{call}: leadership ended before the write was sent")
                    connection.send(request)
                    streaming = call.stream and await connection.head() < 300
                    if not streaming:
                        body = await connection.body()
            code = str(connection.status)
            if connection.status == _UNAUTHORIZED:
                self.identity.reject()
            else:
                self.identity.accept()
            if connection.status < 300:
                return connection, body
            raise error_for(str(call), connection.status, body, connection.retry_after)
        finally:
            if connection is not None and not streaming:
                self._pool.release(_ORIGIN, connection)
            requests, duration = _metrics(code, call.method, self._host)
            requests.inc()
            duration.observe(loop.time() - started)

    async def _connect(self) -> Connection:
        async with asyncio.timeout(self._connect_timeout):
            return await connect(self._source.current())

    def _encode(self, call: _Call, header: str | None) -> bytes:
        """Return the bytes of a request."""
        query = f"?{urlencode(call.params)}" if call.params else ""
        lines = [
            f"{call.method} {self._base}{quote(call.path, safe=_PATH)}{query}{self._constant}{call.accept}"
        ]
        if header:
            lines.append(f"Authorization: {header}")
        if call.impersonate:
            lines.append(f"Impersonate-User: {call.impersonate}")
        else:
            lines += self._impersonation
        if call.body is None:
            return "\r\n".join((*lines, "\r\n")).encode("latin-1")
        lines += (f"Content-Type: {call.content_type}", f"Content-Length: {len(call.body)}", "\r\n")
        return "\r\n".join(lines).encode("latin-1") + call.body

    async def _lines(self, call: _Call, pieces: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
        """Yield complete lines, in batches as they arrive; takes linear time for a line of any length."""
        partial: list[bytes] = []
        while True:
            with self._translate_errors(call):
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
    def _translate_errors(self, call: _Call) -> Iterator[None]:
        """Raise failures of the connection as errors of `kube.errors`."""
        try:
            yield
        except TimeoutError as error:
            raise DeadlineExceeded(f"{call}: {self._host} did not respond in time") from error
        except ssl.SSLCertVerificationError as error:
            self._source.expect_change()
            raise UntrustedServer(f"{self._host}: {error.verify_message or error}") from error
        except OSError as error:
            if isinstance(error, ssl.SSLError):
                self._source.expect_change()
            raise Unreachable(f"{call}: {self._host}: {_describe(error)}") from error


@functools.cache
def _metrics(code: str, method: str, host: str) -> tuple[Counter, Histogram]:
    """Return the metrics of a request; cached, because looking them up by label is slow."""
    return (
        metrics.client_requests.labels(code, method, host),
        metrics.client_seconds.labels(method, host),
    )


def _describe(error: OSError) -> str:
    """Return a short reason, such as `connection refused`."""
    match error:
        case ssl.SSLError(reason=str(reason)):
            return reason.lower().replace("_", " ")
        case socket.gaierror(strerror=str(reason)):
            return reason.lower()
        case OSError(errno=int(number)):
            return os.strerror(number).lower()
    # If all addresses of a host fail, asyncio raises one error whose text lists them.
    if found := re.search(r"\[Errno (\d+)\]", str(error)):
        return os.strerror(int(found[1])).lower()
    return str(error) or type(error).__name__
