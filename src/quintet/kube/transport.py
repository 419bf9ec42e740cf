"""HTTP to one API server: TLS, credentials, deadlines, bounded concurrency, one error tree.

Called by `client`; nothing above it sees aiohttp. A request is answered, or raises one
of `errors`. Nothing is repeated except once after renewing refused credentials: whether a
request may be sent again is for the caller to know.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

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

Fence = Callable[[], bool]
"""Whether this process may still write."""

_JSON = "application/json"


class _Body(aiohttp.Payload):
    """A body that checks the fence when its bytes are handed to the socket, and goes out once.

    aiohttp sends the headers together with the first bytes of the body, so a process
    that was stopped anywhere between the decision to write and the socket, and wakes
    up after its lease ran out, sends nothing at all. aiohttp also repeats a PUT or
    DELETE whose connection broke: whether that is right is not for it to decide.
    """

    def __init__(self, body: bytes, fence: Fence | None, content_type: str) -> None:
        super().__init__(body, content_type=content_type)
        self._size = len(body)
        self._fence = fence
        self._sent = False
        self.held_back = False

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The body as text."""
        return str(self._value, encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send it."""
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Send it, unless that is not allowed."""
        if self._sent:
            raise ConnectionResetError("the connection broke before an answer came")
        self.held_back = self._fence is not None and not self._fence()
        if self.held_back:
            raise ConnectionAbortedError("leadership has ended")
        self._sent = True
        await writer.write(self._value)


@dataclass(frozen=True, slots=True)
class _Call:
    """One request, as it may have to be sent twice."""

    method: str
    path: str
    params: Mapping[str, str] | None = None
    body: bytes | None = None
    content_type: str = _JSON
    fence: Fence | None = None
    stream: bool = False

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
        self._base = URL(config.server)
        self._host = f"{self._base.host}:{self._base.port}"
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=connect_timeout)
        self._connect_timeout = connect_timeout
        # Watches stay open for minutes, so only short requests count against the bound.
        self._slots = asyncio.Semaphore(max_requests)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, ssl=self.config.ssl_context(), keepalive_timeout=60.0)
            self._session = aiohttp.ClientSession(
                connector=connector,
                auto_decompress=True,
                # Compression costs both sides more than it saves between neighbours.
                headers={
                    "User-Agent": f"quintet/{__version__}",
                    "Accept": _JSON,
                    "Accept-Encoding": "identity",
                },
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
            # aiohttp sends GET, PUT and DELETE a second time when a connection breaks, which doubles
            # the load on a server in trouble; it has no public switch for that.
            self._session._retry_connection = False
        return self._session

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = _JSON,
        fence: Fence | None = None,
    ) -> bytes:
        """Send one request and return the body of its answer."""
        call = _Call(method, path, params, body, content_type, fence)
        async with self._slots:
            response = await self._send(call, self._timeout)
        return await response.read()

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], *, idle_timeout: float
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Open a long answer; iterate over batches of whole lines as they arrive.

        A connection that stays silent for `idle_timeout` counts as dead: a peer that
        vanished without a word would otherwise never be missed.
        """
        call = _Call("GET", path, params, stream=True)
        # aiohttp's default limits are for documents, not for streams of them.
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._connect_timeout, sock_read=idle_timeout
        )
        async with await self._send(call, timeout) as response:
            yield self._lines(call, response.content)

    async def _send(self, call: _Call, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """A good answer; whole, unless it is a stream. Refused credentials are renewed once."""
        credentials = self.config.credentials
        header = await credentials.header()
        try:
            return await self._once(call, header, timeout)
        except Unauthorized as error:
            if not await credentials.renew(header):
                error.expiry = self.config.expiry_problem()
                raise
        return await self._once(call, await credentials.header(), timeout)

    async def _once(
        self, call: _Call, header: str | None, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        body = None if call.body is None else _Body(call.body, call.fence, call.content_type)
        url = self._base.joinpath(call.path.lstrip("/"), encoded=False)
        loop = asyncio.get_running_loop()
        started = loop.time()
        code = "error"
        try:
            with self._translated(call):
                response = await self._open().request(
                    call.method,
                    url.with_query(call.params) if call.params else url,
                    data=body,
                    headers={"Authorization": header} if header else None,
                    timeout=timeout,
                    allow_redirects=False,
                    proxy=self.config.proxy_url,
                    server_hostname=self.config.tls_server_name,
                )
                code = str(response.status)
                good = response.status < 300
                if not (good and call.stream):
                    answer = await response.read()
            if good:
                return response
            raise error_for(str(call), response.status, answer, response.headers.get("Retry-After"))
        except Unreachable:
            if body is not None and body.held_back:
                raise WriteFenced(f"{call}: leadership ended before the write was sent") from None
            raise
        finally:
            metrics.client_requests.labels(code, call.method, self._host).inc()
            metrics.client_seconds.labels(call.method, self._host).observe(loop.time() - started)

    async def _lines(self, call: _Call, content: aiohttp.StreamReader) -> AsyncIterator[list[bytes]]:
        """Whole lines, in batches as the network delivers them; linear however long a line is."""
        partial: list[bytes] = []
        while True:
            with self._translated(call):
                chunk = await content.readany()
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
        except aiohttp.ClientConnectorCertificateError as error:
            raise UntrustedServer(f"{self._host}: {_certificate_problem(error)}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"{call}: {self._host}: {_innermost(error)}") from error


def _certificate_problem(error: aiohttp.ClientConnectorCertificateError) -> str:
    inner = error.certificate_error
    return getattr(inner, "verify_message", "") or str(inner)


def _innermost(error: BaseException) -> str:
    """The root cause in words: outer layers only repeat where, which we say already."""
    while error.__cause__ is not None:
        error = error.__cause__
    match error:
        case ssl.SSLError(reason=str(words)):
            return words.lower().replace("_", " ")
        case socket.gaierror(strerror=str(words)):
            return words.lower()
        case OSError(errno=int(number)):
            return os.strerror(number).lower()
    return str(error) or type(error).__name__
