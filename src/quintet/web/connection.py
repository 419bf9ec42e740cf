"""One HTTP/1.1 client connection, and how it is opened.

A connection carries one request at a time. llhttp (`httptools`) parses the responses. docs/adr/0012 says why
this is not a general HTTP client: it needs a third of the time per request.
"""

import asyncio
import base64
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast
from urllib.parse import unquote, urlsplit

import httptools

from quintet.web.happy_eyeballs import connect_first

# Status line and headers of one response, and its trailers. API servers, sinks and pods send less than 4 KiB.
_MAX_HEAD_BYTES = 64 << 10

# Reading pauses while more than this is unread, so that a slow reader slows down the sender.
_MAX_BUFFERED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ConnectionTarget:
    """The server of a connection, and how to reach it."""

    server: str
    tls: ssl.SSLContext | None
    server_name: str | None = None
    proxy: str | None = None
    addresses: tuple[str, ...] = ()
    """Connect to one of these instead of resolving the host."""

    @property
    def is_forwarded(self) -> bool:
        """Whether a proxy forwards plain requests, so that request lines need the absolute URL."""
        return self.proxy is not None and self.tls is None


class Connection(asyncio.Protocol):
    """Sends a request and receives its response."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._chunks: list[bytes] = []
        self._buffered_bytes = self._body_bytes = self._head_bytes = self._trailer_bytes = 0
        self._bodiless_bytes = 0
        self._tail = b""
        self._started = self._ended = self._has_length = self._keep_alive = False
        self.lost = False
        self.has_received = False
        """Whether anything of the response to the current request was received."""
        self.status = 0
        self.retry_after: str | None = None
        self.idle_since = 0.0

    def send(self, request: bytes) -> None:
        """Write a complete request to the socket, without waiting."""
        self._parser = httptools.HttpResponseParser(self)
        self._chunks.clear()
        self._buffered_bytes = self._body_bytes = self._head_bytes = self._trailer_bytes = 0
        self._bodiless_bytes = self.status = 0
        self._tail = b""
        self._started = self._ended = self._has_length = self._keep_alive = False
        self.retry_after = None
        self.has_received = False
        assert self._transport is not None, "open a connection with `connect`"
        self._transport.write(request)

    async def head(self) -> int:
        """Wait for the status of the response."""
        while not self._started:
            await self._wait()
        return self.status

    async def body(self) -> bytes:
        """Wait for the complete response body."""
        parts = []
        while not self._ended:
            await self._wait()
            if self._buffered_bytes > _MAX_BUFFERED_BYTES:
                parts.append(self._take_body())
        return b"".join((*parts, self._take_body())) if parts else self._take_body()

    async def body_start(self, limit: int) -> bytes:
        """Return at most `limit` bytes of the response body; a longer body closes the connection."""
        while not self._ended and self._body_bytes <= limit:
            await self._wait()
        if not self._ended:
            self.close()
        return self._take_body()[:limit]

    async def pieces(self, idle_timeout: float) -> AsyncIterator[bytes]:
        """Yield the response body as it arrives; raise TimeoutError after `idle_timeout` without data."""
        while True:
            if not self._chunks and not self._ended:
                async with asyncio.timeout(idle_timeout):
                    await self._wait()
            if self._chunks:
                yield self._take_body()
            elif self._ended:
                return

    @property
    def is_complete(self) -> bool:
        """Whether the response to the current request has arrived as a whole."""
        return self._ended

    @property
    def is_reusable(self) -> bool:
        """Whether another request can be sent on this connection."""
        return not self.lost and (self._parser is None or (self._ended and self._keep_alive))

    def close(self) -> None:
        """Close the connection immediately: a TLS shutdown could be delayed by the peer."""
        self.lost = True
        if self._transport is not None:
            self._transport.abort()

    async def start_tls(self, tls: ssl.SSLContext, server_name: str) -> None:
        """Start TLS with the server behind the proxy."""
        assert self._transport is not None, "open a connection with `connect`"
        self._transport = await self._loop.start_tls(self._transport, self, tls, server_hostname=server_name)

    async def _wait(self) -> None:
        """Wait until data arrives or the connection closes."""
        if self.lost:
            raise self._error or ConnectionResetError(
                "the connection closed before the response was complete"
            )
        waiter = self._waiter = self._loop.create_future()
        try:
            await waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _take_body(self) -> bytes:
        chunks = self._chunks
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        if self._buffered_bytes > _MAX_BUFFERED_BYTES and not self.lost and self._transport is not None:
            self._transport.resume_reading()
        self._buffered_bytes = 0
        return body

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes."""
        if self._parser is None or self._ended:
            # Data without a request. An empty line after a response means nothing to any parser.
            if self._parser is None or data.strip(b"\r\n"):
                self.close()
            return
        self.has_received = True
        try:
            while data:
                data = self._parse_next(self._parser, data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._error = self._error or ConnectionError(f"the response is not valid HTTP ({error})")
            self.close()  # a response that is complete stays valid
        self._wake()

    def _parse_next(self, parser: httptools.HttpResponseParser, data: bytes) -> bytes:
        """Parse the next part of received bytes, and return the rest.

        llhttp buffers a header or trailer of any length until it is complete. A head is parsed on its own, so
        that its limit does not depend on how the bytes were split.
        """
        if self._started:
            before = self._body_bytes
            parser.feed_data(data)
            # Data without body bytes is trailers or chunk extensions. Twice the limit, so that a split never
            # matters to usual trailers.
            self._bodiless_bytes = 0 if self._body_bytes > before else self._bodiless_bytes + len(data)
            if self._bodiless_bytes > 2 * _MAX_HEAD_BYTES and not self._ended:
                self._fail_too_large()
            return b""
        end = (self._tail + data).find(b"\r\n\r\n")
        size = end + 4 - len(self._tail) if end >= 0 else len(data)
        allowed = _MAX_HEAD_BYTES - self._head_bytes
        part, data = data[:size], data[size:]
        self._head_bytes += size
        self._tail = (self._tail + part)[-3:]
        parser.feed_data(part[:allowed])
        if size > allowed:
            self._fail_too_large()
            return b""
        return data

    def _fail_too_large(self) -> None:
        if self._error is None:
            self._error = ConnectionError(
                f"the response has more than {_MAX_HEAD_BYTES >> 10} KiB of headers"
            )
        self.close()

    def connection_lost(self, error: Exception | None) -> None:
        """Mark the connection as lost and wake up the reader."""
        self.lost = True
        self._error = self._error or error
        # A response without a length ends when the connection closes.
        if error is None and self._started and not self._has_length:
            self._ended = True
        self._wake()

    # Callbacks of httptools.

    def on_message_begin(self) -> None:
        """Reject a second response to one request."""
        if self._ended:
            raise ConnectionError("more than one response to a request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the headers that are needed. Count and ignore trailers."""
        if self._started:
            self._trailer_bytes += len(name) + len(value) + 3  # the shortest form: `name:value\r\n`
            if self._head_bytes + self._trailer_bytes > _MAX_HEAD_BYTES:
                self._fail_too_large()
                raise ConnectionError
            return
        match name.lower():
            case b"content-length" | b"transfer-encoding":
                self._has_length = True
            case b"retry-after":
                self.retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Keep the status; 1xx responses are skipped."""
        assert self._parser is not None
        self.status = self._parser.get_status_code()
        self._started = self.status >= 200

    def on_body(self, data: bytes) -> None:
        """Buffer a part of the body, and pause reading if too much is unread."""
        self._body_bytes += len(data)
        self._chunks.append(data)
        before, self._buffered_bytes = self._buffered_bytes, self._buffered_bytes + len(data)
        if before <= _MAX_BUFFERED_BYTES < self._buffered_bytes and self._transport is not None:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Mark the response as complete."""
        self._ended = self._started
        self._keep_alive = self._parser is not None and self._parser.should_keep_alive()


async def connect(target: ConnectionTarget) -> Connection:
    """Open a connection, through the proxy if there is one."""
    url = urlsplit(target.server)
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    if target.proxy is None:
        return await _open(host, port, target.tls, target.server_name or host, target.addresses)
    proxy = urlsplit(target.proxy)
    proxy_tls = ssl.create_default_context() if proxy.scheme == "https" else None
    connection = await _open(
        proxy.hostname or "", proxy.port or (443 if proxy_tls else 80), proxy_tls, proxy.hostname or ""
    )
    if target.tls is None:
        return connection
    try:
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        login = proxy_authorization(target.proxy)
        connection.send(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{login}\r\n".encode())
        if (status := await connection.head()) != 200:
            raise ConnectionError(f"the proxy {proxy.hostname} responded with {status}")
        await connection.start_tls(target.tls, target.server_name or host)
    except BaseException:
        connection.close()
        raise
    return connection


def proxy_authorization(proxy: str) -> str:
    """Return the header line with the user and password of a proxy URL; empty if it has none."""
    url = urlsplit(proxy)
    if not url.username:
        return ""
    pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"


async def _open(
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    server_name: str,
    addresses: Sequence[str] = (),
) -> Connection:
    name = server_name if tls else None

    async def connect_to(address: str) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, address, port, ssl=tls, server_hostname=name)
        return connection

    found = addresses or await resolve(host, port)
    return await connect_first([partial(connect_to, each) for each in found], OSError, Connection.close)


async def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, without duplicates; a literal address is returned as it is."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))
    return (host,)
