"""Bytes of a client become requests, within limits. The parsing is llhttp's (`httptools`).

Used by `conversation`, which is told of each request that is whole. What must not go on raises
`Refused`, with the answer that the client gets.
"""

from typing import TYPE_CHECKING, NoReturn

import httptools

from quintet.web.messages import NAMES, Request, Response, name_of, split_target

if TYPE_CHECKING:
    from quintet.web.conversation import Conversation
    from quintet.web.server import Server

# A header that says where a message ends, or whom it is for, must not have two opinions.
_ONCE = frozenset({"host", "content-length", "transfer-encoding", "content-type"})


class Refused(Exception):
    """The client asked for what it does not get."""

    def __init__(self, status: int, reason: str) -> None:
        self.response = Response(status, f"{reason}\n".encode())
        super().__init__(reason)


class Reader:
    """Reads the requests of one client."""

    def __init__(self, server: "Server", conversation: "Conversation") -> None:
        self._server = server
        self._limits = server.limits
        self._conversation = conversation
        self._parser = httptools.HttpRequestParser(self)
        self._refused: Refused | None = None
        self._small = False
        self.head_done = False
        self.phase = 0
        """Counts the beginnings and ends of heads: another number is another time limit."""
        self._fresh()

    def _fresh(self) -> None:
        """Ready for the next request."""
        self._url = b""
        self._headers: dict[str, str] = {}
        self._header_bytes = self._trailer_bytes = self._silent_bytes = self._body_bytes = 0
        self._pairs: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._truncated = False
        self.receiving = False

    def feed(self, data: bytes) -> None:
        """Take bytes in; raises `Refused`."""
        self._small = not self.receiving and len(data) <= self._limits.header_bytes
        if not self.receiving:
            self._begin()
        phase, body_bytes = self.phase, self._body_bytes
        try:
            self._parser.feed_data(data)
            if self.receiving and self.phase == phase:  # else what these bytes are of is known
                self._count_silent(len(data), self._body_bytes > body_bytes)
        except httptools.HttpParserUpgrade:
            pass  # what came before is answered, and the connection ends with that
        except (httptools.HttpParserError, Refused) as error:
            if not self._truncated:
                raise self._refused or Refused(400, f"not a valid request: {error}") from error
            self._complete(keep_alive=False)

    def let_go(self) -> None:
        """The client is gone, and what it had sent of a request with it."""
        self._server.buffered -= self._body_bytes
        self._body_bytes = 0

    # What httptools calls.

    def on_message_begin(self) -> None:
        """A request begins."""
        if not self.receiving:
            self._begin()

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer: these are counted and ignored."""
        if self.head_done:
            self._trailer_bytes += len(name) + len(value) + 4
            self._check_headers()
        else:
            self._pairs.append((name, value))

    def on_headers_complete(self) -> None:
        """What is asked is known; the body may follow."""
        self.head_done = True
        self.phase += 1
        headers = self._headers = self._collected()
        if self._parser.get_http_version() == "1.1":
            if "host" not in headers:
                self._stop(400, "the header Host is missing")
        elif "transfer-encoding" in headers:
            self._stop(400, "HTTP/1.0 has no Transfer-Encoding")
        length = headers.get("content-length", "")
        if self._parser.should_upgrade() and (length or "transfer-encoding" in headers):
            self._stop(400, "a request with a body cannot change the protocol")
        if length and int(length) > self._limits.body_bytes and not self._limits.excerpt_bytes:
            self._too_large()
        if (expected := headers.get("expect")) is not None:
            if expected.lower() != "100-continue":
                self._stop(417, "only 100-continue can be expected")
            self._conversation.promise()

    def on_body(self, data: bytes) -> None:
        """A part of the body."""
        self._body_bytes += len(data)
        self._server.buffered += len(data)
        self._body.append(data)
        if self._body_bytes > self._limits.body_bytes:
            self._too_large()
        if self._server.buffered > self._limits.buffered_bytes:
            self._stop(503, "too much is being sent at once: try again")

    def on_message_complete(self) -> None:
        """A request is whole."""
        # After an upgrade, which we do not make, what follows may be anything.
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
            self._stop(400, "the target of the request is not valid")
        request = Request(
            self._parser.get_method().decode("latin-1"),
            path,
            query,
            self._headers,
            body[0] if len(body) == 1 else b"".join(body),
            keep_alive,
            self._truncated,
        )
        self._fresh()
        self._conversation.arrived(request)

    def _begin(self) -> None:
        self.receiving = True
        self.head_done = False
        self.phase += 1

    def _collected(self) -> dict[str, str]:
        """The headers by name."""
        pairs = self._pairs
        if not self._small:  # else all that came is less than a head may have
            size = sum([len(name) + len(value) for name, value in pairs]) + 4 * len(pairs)
            self._header_bytes = max(size + len(self._url), self._header_bytes)
        self._check_headers()
        headers = {NAMES.get(name) or name_of(name): value.decode("latin-1") for name, value in pairs}
        return headers if len(headers) == len(pairs) else self._joined()

    def _joined(self) -> dict[str, str]:
        """The headers by name, where a name comes more than once."""
        headers: dict[str, str] = {}
        for name, value in self._pairs:
            key = name_of(name)
            if key not in headers:
                headers[key] = value.decode("latin-1")
            elif key in _ONCE:
                self._stop(400, f"the header {key} must not be given twice")
            else:
                headers[key] += f", {value.decode('latin-1')}"
        return headers

    def _count_silent(self, size: int, has_body: bool) -> None:
        """Count bytes that all belong to one head, or all come after one.

        llhttp keeps a name or value of any length until it is whole, in a head and in trailers.
        """
        if not self.head_done:
            self._header_bytes += size
        elif has_body:
            self._silent_bytes = 0  # the frames of chunks, which nobody keeps
        else:
            self._silent_bytes += size
        self._check_headers()

    def _check_headers(self) -> None:
        size = self._header_bytes + max(self._trailer_bytes, self._silent_bytes)
        if size > self._limits.header_bytes or len(self._pairs) > self._limits.headers:
            self._stop(431, "the headers are too many or too large")

    def _too_large(self) -> NoReturn:
        if self._limits.excerpt_bytes:
            excerpt = b"".join(self._body)[: self._limits.excerpt_bytes]
            self._server.buffered -= self._body_bytes - len(excerpt)
            self._body, self._body_bytes, self._truncated = [excerpt], len(excerpt), True
        self._stop(413, f"the body is larger than {self._limits.body_bytes} bytes")

    def _stop(self, status: int, reason: str) -> NoReturn:
        """End reading from within the parser, which hides the reason of an exception."""
        self._refused = Refused(status, reason)
        raise self._refused
