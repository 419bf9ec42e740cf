"""Parses requests from the bytes of one connection, within limits. llhttp (`httptools`) parses the syntax.

Each complete request is passed to the connection. An invalid request raises `RequestError`, which holds
the response for the client.
"""

from typing import TYPE_CHECKING, NoReturn

import httptools

from quintet.web.messages import HEADER_NAMES, Request, Response, lower_header_name, split_target

if TYPE_CHECKING:
    from quintet.web.server import Server
    from quintet.web.server_connection import ServerConnection

# Two values of these headers could be read differently by us and by a proxy (request smuggling).
_SINGLE_VALUE = frozenset({"host", "content-length", "transfer-encoding", "content-type"})


class RequestError(Exception):
    """A request that is rejected with an error response."""

    def __init__(self, status: int, reason: str) -> None:
        self.response = Response(status, f"{reason}\n".encode())
        super().__init__(reason)


class RequestParser:
    """Parses the requests of one connection."""

    def __init__(self, server: "Server", connection: "ServerConnection") -> None:
        self._server = server
        self._limits = server.limits
        self._connection = connection
        self._parser = httptools.HttpRequestParser(self)
        self._error: RequestError | None = None
        self._small = False
        self.head_done = False
        self.phase = 0
        """Counts starts and ends of request heads: each phase has its own deadline."""
        self._reset()

    def _reset(self) -> None:
        """Prepare for the next request."""
        self._url = b""
        self._headers: dict[str, str] = {}
        self._header_bytes = self._trailer_bytes = self._bodiless_bytes = self._body_bytes = 0
        self._pairs: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._truncated = False
        self.receiving = False

    def feed(self, data: bytes) -> None:
        """Parse received bytes; raises `RequestError`."""
        self._small = not self.receiving and len(data) <= self._limits.header_bytes
        if not self.receiving:
            self._begin()
        phase, body_bytes = self.phase, self._body_bytes
        try:
            self._parser.feed_data(data)
            if self.receiving and self.phase == phase:  # otherwise these bytes are counted by callbacks
                self._count_bodiless(len(data), self._body_bytes > body_bytes)
        except httptools.HttpParserUpgrade:
            pass  # the requests so far are answered, then the connection closes
        except (httptools.HttpParserError, RequestError) as error:
            if not self._truncated:
                raise self._error or RequestError(400, f"not a valid request: {error}") from error
            self._complete(keep_alive=False)

    def release_buffer(self) -> None:
        """Release the memory of a request that will not be completed, because the client disconnected."""
        self._server.buffered -= self._body_bytes
        self._body_bytes = 0

    # Callbacks of httptools.

    def on_message_begin(self) -> None:
        """Start a request."""
        if not self.receiving:
            self._begin()

    def on_url(self, url: bytes) -> None:
        """Append a part of the request target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header. Count and ignore trailers."""
        if self.head_done:
            self._trailer_bytes += len(name) + len(value) + 4
            self._check_header_size()
        else:
            self._pairs.append((name, value))

    def on_headers_complete(self) -> None:
        """Validate the request head."""
        self.head_done = True
        self.phase += 1
        headers = self._headers = self._collect_headers()
        if self._parser.get_http_version() == "1.1":
            if "host" not in headers:
                self._reject(400, "the Host header is missing")
        elif "transfer-encoding" in headers:
            self._reject(400, "HTTP/1.0 does not support Transfer-Encoding")
        length = headers.get("content-length", "")
        if self._parser.should_upgrade() and (length or "transfer-encoding" in headers):
            self._reject(400, "an upgrade request must not have a body")
        if length and int(length) > self._limits.body_bytes and not self._limits.excerpt_bytes:
            self._reject_body()
        if (expected := headers.get("expect")) is not None:
            if expected.lower() != "100-continue":
                self._reject(417, "the only supported expectation is 100-continue")
            self._connection.send_continue()

    def on_body(self, data: bytes) -> None:
        """Buffer a part of the body."""
        self._body_bytes += len(data)
        self._server.buffered += len(data)
        self._body.append(data)
        if self._body_bytes > self._limits.body_bytes:
            self._reject_body()
        if self._server.buffered > self._limits.buffered_bytes:
            self._reject(503, "the server is receiving too much data: try again later")

    def on_message_complete(self) -> None:
        """Pass a complete request to the connection."""
        # The server does not upgrade; the bytes after an upgrade request may be another protocol.
        parser = self._parser
        keep_alive = (
            parser.should_keep_alive() and parser.get_http_version() == "1.1" and not parser.should_upgrade()
        )
        self._complete(keep_alive=bool(keep_alive))

    def _complete(self, *, keep_alive: bool) -> None:
        body = self._body
        try:
            path, query = split_target(self._url)
        except httptools.HttpParserError:
            self._reject(400, "the request target is not valid")
        request = Request(
            self._parser.get_method().decode("latin-1"),
            path,
            query,
            self._headers,
            body[0] if len(body) == 1 else b"".join(body),
            keep_alive,
            self._truncated,
        )
        self._reset()
        self._connection.enqueue(request)

    def _begin(self) -> None:
        self.receiving = True
        self.head_done = False
        self.phase += 1

    def _collect_headers(self) -> dict[str, str]:
        """Return the headers by name."""
        pairs = self._pairs
        if not self._small:  # a small read cannot exceed the limit
            size = sum([len(name) + len(value) for name, value in pairs]) + 4 * len(pairs)
            self._header_bytes = max(size + len(self._url), self._header_bytes)
        self._check_header_size()
        headers = {
            HEADER_NAMES.get(name) or lower_header_name(name): value.decode("latin-1")
            for name, value in pairs
        }
        return headers if len(headers) == len(pairs) else self._join_headers()

    def _join_headers(self) -> dict[str, str]:
        """Return the headers by name, with the values of repeated headers joined."""
        headers: dict[str, str] = {}
        for name, value in self._pairs:
            key = lower_header_name(name)
            if key not in headers:
                headers[key] = value.decode("latin-1")
            elif key in _SINGLE_VALUE:
                self._reject(400, f"the header {key} must not be repeated")
            else:
                headers[key] += f", {value.decode('latin-1')}"
        return headers

    def _count_bodiless(self, size: int, has_body: bool) -> None:
        """Count received bytes that belong to a head or to trailers.

        llhttp buffers a header or trailer of any length until it is complete, without a callback.
        """
        if not self.head_done:
            self._header_bytes += size
        elif has_body:
            self._bodiless_bytes = 0  # the framing of chunks is not buffered
        else:
            self._bodiless_bytes += size
        self._check_header_size()

    def _check_header_size(self) -> None:
        size = self._header_bytes + max(self._trailer_bytes, self._bodiless_bytes)
        if size > self._limits.header_bytes or len(self._pairs) > self._limits.headers:
            self._reject(431, "the headers are too many or too large")

    def _reject_body(self) -> NoReturn:
        if self._limits.excerpt_bytes:
            excerpt = b"".join(self._body)[: self._limits.excerpt_bytes]
            self._server.buffered -= self._body_bytes - len(excerpt)
            self._body, self._body_bytes, self._truncated = [excerpt], len(excerpt), True
        self._reject(413, f"the body is larger than {self._limits.body_bytes} bytes")

    def _reject(self, status: int, reason: str) -> NoReturn:
        """Raise a `RequestError`; keep it, because httptools replaces exceptions of callbacks by its own."""
        self._error = RequestError(status, reason)
        raise self._error
