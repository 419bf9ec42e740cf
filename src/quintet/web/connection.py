"""One HTTP/1.1 connection to a server, and how it is opened.

Used by `kube.transport`, which keeps a pool of them, and by whoever delivers events. A connection
carries one request at a time; the parsing is llhttp's (`httptools`). Written for one purpose, it
takes a third of the time per request that a general client takes (docs/adr/0012).
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

from quintet.web.racing import first_of

# An answer has a status line, headers, perhaps trailers; what has more of them is no answer. API servers,
# sinks and pods send less than 4 KiB.
_MOST_HEAD = 64 << 10

# Reading pauses while more than this waits to be taken, so that a slow reader holds up the sender.
_ENOUGH = 1 << 20


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect to."""

    server: str
    tls: ssl.SSLContext | None
    server_name: str | None = None
    proxy: str | None = None
    addresses: tuple[str, ...] = ()
    """Connect to one of these, instead of resolving the host."""

    @property
    def forwarded(self) -> bool:
        """Whether a proxy reads the requests, and so must be told the whole address."""
        return self.proxy is not None and self.tls is None


class Connection(asyncio.Protocol):
    """Sends a request and collects its answer."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._chunks: list[bytes] = []
        self._waiting_bytes = self._body_bytes = self._header_bytes = self._silent_bytes = 0
        self._started = self._ended = self._bounded = self._kept = False
        self.lost = False
        self.status = 0
        self.retry_after: str | None = None
        self.idle_since = 0.0

    def send(self, request: bytes) -> None:
        """Hand a whole request to the socket, at once."""
        self._parser = httptools.HttpResponseParser(self)
        self._chunks.clear()
        self._waiting_bytes = self._body_bytes = self._header_bytes = self._silent_bytes = self.status = 0
        self._started = self._ended = self._bounded = self._kept = False
        self.retry_after = None
        assert self._transport is not None, "a connection is made by `dial`"
        self._transport.write(request)

    async def head(self) -> int:
        """Wait for the status of the answer."""
        while not self._started:
            await self._news()
        return self.status

    async def body(self) -> bytes:
        """Wait for the whole answer."""
        parts = []
        while not self._ended:
            await self._news()
            if self._waiting_bytes > _ENOUGH:
                parts.append(self._taken())
        return b"".join((*parts, self._taken())) if parts else self._taken()

    async def pieces(self, idle_timeout: float) -> AsyncIterator[bytes]:
        """The answer as it arrives; silence for longer than that is an error."""
        while True:
            if not self._chunks and not self._ended:
                async with asyncio.timeout(idle_timeout):
                    await self._news()
            if self._chunks:
                yield self._taken()
            elif self._ended:
                return

    @property
    def reusable(self) -> bool:
        """Whether another request may follow on this connection."""
        return not self.lost and (self._parser is None or (self._ended and self._kept))

    def close(self) -> None:
        """End it, without a farewell that a peer could delay."""
        self.lost = True
        if self._transport is not None:
            self._transport.abort()

    async def upgrade(self, tls: ssl.SSLContext, server_name: str) -> None:
        """Speak TLS from here on, with whoever is behind the proxy."""
        assert self._transport is not None, "a connection is made by `dial`"
        self._transport = await self._loop.start_tls(self._transport, self, tls, server_hostname=server_name)

    async def _news(self) -> None:
        """Wait until something arrives, or the connection ends."""
        if self.lost:
            raise self._error or ConnectionResetError("the connection ended before the answer did")
        waiter = self._waiter = self._loop.create_future()
        try:
            await waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _taken(self) -> bytes:
        chunks = self._chunks
        taken = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        if self._waiting_bytes > _ENOUGH and not self.lost and self._transport is not None:
            self._transport.resume_reading()
        self._waiting_bytes = 0
        return taken

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        if self._parser is None or self._ended:
            self.close()  # nobody asked
            return
        body_bytes = self._body_bytes
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._error = self._error or ConnectionError(f"the answer is no HTTP ({error})")
            self.close()  # an answer that was whole before stays good
        else:
            # llhttp keeps a header of any length until it is whole, and joins its parts. What comes without
            # any body is headers, trailers or chunk extensions.
            self._silent_bytes = self._silent_bytes + len(data) if self._body_bytes == body_bytes else 0
            if self._silent_bytes > _MOST_HEAD and not self._ended:
                self._error = _too_long()
                self.close()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        """It is over."""
        self.lost = True
        self._error = self._error or error
        # An answer without a length ends with its connection.
        if error is None and self._started and not self._bounded:
            self._ended = True
        self._wake()

    # What httptools calls.

    def on_message_begin(self) -> None:
        """An answer begins; a second one, for which nobody asked, is not read."""
        if self._ended:
            raise ConnectionError("more than one answer to a request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the answer, or a trailer."""
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > _MOST_HEAD:
            self._error = _too_long()
            raise self._error
        match name.lower():
            case b"content-length" | b"transfer-encoding":
                self._bounded = True
            case b"retry-after":
                self.retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """What the answer will be is known."""
        assert self._parser is not None
        self.status = self._parser.get_status_code()
        self._started = self.status >= 200

    def on_body(self, data: bytes) -> None:
        """A part of the answer."""
        self._body_bytes += len(data)
        self._chunks.append(data)
        before, self._waiting_bytes = self._waiting_bytes, self._waiting_bytes + len(data)
        if before <= _ENOUGH < self._waiting_bytes and self._transport is not None:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """The answer is whole."""
        self._ended = self._started
        self._kept = self._parser is not None and self._parser.should_keep_alive()


def _too_long() -> ConnectionError:
    return ConnectionError(f"the answer has more than {_MOST_HEAD >> 10} KiB of headers")


async def dial(target: Target) -> Connection:
    """A new connection, through the proxy if there is one."""
    url = urlsplit(target.server)
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    if target.proxy is None:
        return await _open(host, port, target.tls, target.server_name or host, target.addresses)
    proxy = urlsplit(target.proxy)
    through = ssl.create_default_context() if proxy.scheme == "https" else None
    connection = await _open(
        proxy.hostname or "", proxy.port or (443 if through else 80), through, proxy.hostname or ""
    )
    if target.tls is None:
        return connection
    try:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        connection.send(
            f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{proxy_header(target.proxy)}\r\n".encode()
        )
        if (status := await connection.head()) != 200:
            raise ConnectionError(f"the proxy {proxy.hostname} answered {status}")
        await connection.upgrade(target.tls, target.server_name or host)
    except BaseException:
        connection.close()
        raise
    return connection


def proxy_header(proxy: str) -> str:
    """Who we are to the proxy, as a line of a request; empty if it does not ask."""
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

    async def connect(address: str) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, address, port, ssl=tls, server_hostname=name)
        return connection

    found = addresses or await _resolve(host, port)
    # One that does not answer must not take the time of the others.
    return await first_of([partial(connect, each) for each in found], OSError, Connection.close)


async def _resolve(host: str, port: int) -> Sequence[str]:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))
    return (host,)
