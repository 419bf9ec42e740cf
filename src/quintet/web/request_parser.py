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

_END = b"\r\n\r\n"
_BLANK = b"\r\n"

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
        self._stopped = False
        self.head_done = False
        self.phase = 0
        """Counts starts and ends of request heads: each phase has its own deadline."""
        self._reset()

    def _reset(self) -> None:
        """Prepare for the next request."""
        self._url = b""
        self._headers: dict[str, str] = {}
        self._head_bytes = self._trailer_bytes = self._bodiless_bytes = self._body_bytes = 0
        self._length: int | None = None
        self._tail = b""
        self._pairs: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._truncated = False
        self.receiving = False

    def feed(self, data: bytes) -> None:
        """Parse received bytes; raises `RequestError`.

        The result does not depend on how the bytes were split: no part that is parsed at once reaches beyond
        the end of a head or of a request, so that every head is counted from its first byte to its last.
        """
        while data and not self._stopped:
            if not self.receiving:
                data = data.lstrip(_BLANK)  # some clients send an empty line after a body
                if not data:
                    return
                self._begin()
            size = self._next_part(data)
            part = data if size >= len(data) else data[:size]
            data = data[size:]
            if self.head_done:
                self._parse_body(part)
            else:
                self._parse_head(part)

    def _next_part(self, data: bytes) -> int:
        """Return the number of bytes up to the end of the head or body, or of all if it is not among them."""
        if self.head_done and self._length is not None:
            return self._length - self._body_bytes
        # A head and a chunked body end with an empty line.
        end = (self._tail + data).find(_END)
        return end + len(_END) - len(self._tail) if end >= 0 else len(data)

    def _parse_head(self, part: bytes) -> None:
        allowed = self._limits.header_bytes - self._head_bytes
        self._head_bytes += len(part)
        self._tail = (self._tail + part)[-3:]
        if allowed:
            self._parse(part[:allowed])  # what is invalid before the limit is reported as such
        if len(part) > allowed:
            self._reject(431, "the headers are too large")

    def _parse_body(self, part: bytes) -> None:
        before = self._body_bytes
        if self._length is None:
            self._tail = (self._tail + part)[-3:]
        self._parse(part)
        if self.receiving and self._length is None:
            # llhttp buffers a trailer of any length until it is complete, and skips a chunk extension of any
            # length, without a callback. Twice the limit, so that a split never matters to usual trailers.
            self._bodiless_bytes = 0 if self._body_bytes > before else self._bodiless_bytes + len(part)
            if self._bodiless_bytes > 2 * self._limits.header_bytes:
                self._reject(431, "the trailers or chunk extensions are too large")

    def _parse(self, part: bytes) -> None:
        try:
            self._parser.feed_data(part)
        except httptools.HttpParserUpgrade:
            self._stopped = True  # the requests so far are answered, then the connection closes
        except (httptools.HttpParserError, RequestError) as error:
            if not self._truncated:
                raise self._error or RequestError(400, f"not a valid request: {error}") from error
            self._complete(keep_alive=False)

    def release_buffer(self) -> None:
        """Release the memory of a request that will not be completed, because the client disconnected."""
        self._server.buffered -= self._body_bytes
        self._body_bytes = 0

    # Callbacks of httptools.

    def on_url(self, url: bytes) -> None:
        """Append a part of the request target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header. Count and ignore trailers."""
        if self.head_done:
            self._trailer_bytes += len(name) + len(value) + 3  # the shortest form: `name:value\r\n`
            if self._head_bytes + self._trailer_bytes > self._limits.header_bytes:
                self._reject(431, "the trailers are too large")
        else:
            self._pairs.append((name, value))

    def on_headers_complete(self) -> None:
        """Validate the request head."""
        self.head_done = True
        self.phase += 1
        self._tail = b""
        if len(self._pairs) > self._limits.headers:
            self._reject(431, "there are too many headers")
        headers = self._headers = self._collect_headers()
        self._check_version(headers)
        length = headers.get("content-length", "")
        self._length = int(length) if length else None
        if self._parser.should_upgrade() and (length or "transfer-encoding" in headers):
            self._reject(400, "an upgrade request must not have a body")
        if length and int(length) > self._limits.body_bytes and not self._limits.excerpt_bytes:
            self._reject_body()
        if (expected := headers.get("expect")) is not None:
            if expected.lower() != "100-continue":
                self._reject(417, "the only supported expectation is 100-continue")
            self._connection.send_continue()

    def _check_version(self, headers: dict[str, str]) -> None:
        match self._parser.get_http_version():
            case "1.1":
                if "host" not in headers:
                    self._reject(400, "the Host header is missing")
            case "1.0":
                if "transfer-encoding" in headers:
                    self._reject(400, "HTTP/1.0 does not support Transfer-Encoding")
            case _:  # a request line without a version is HTTP/0.9
                self._reject(505, "the only supported versions are HTTP/1.1 and HTTP/1.0")

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
        self._stopped = not keep_alive
        self._connection.enqueue(request)

    def _begin(self) -> None:
        self.receiving = True
        self.head_done = False
        self.phase += 1

    def _collect_headers(self) -> dict[str, str]:
        """Return the headers by name."""
        headers = {
            HEADER_NAMES.get(name) or lower_header_name(name): value.decode("latin-1")
            for name, value in self._pairs
        }
        return headers if len(headers) == len(self._pairs) else self._join_headers()

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
