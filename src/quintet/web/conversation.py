"""One client's connection to the server: requests in, answers out, in order, within limits.

Made by `server` for each connection. Requests that come while another is worked on wait in line, and
the client is not read on when the line is full. A client that is refused gets the reason and the end.
"""

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Awaitable
from math import inf
from typing import TYPE_CHECKING, cast

import httptools

from quintet.web.messages import Later, Request, Response, encoded, split_target

if TYPE_CHECKING:
    from quintet.web.server import Server

logger = logging.getLogger(__name__)

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
# A header that says where a message ends, or whom it is for, must not have two opinions.
_ONCE = frozenset({"host", "content-length", "transfer-encoding", "content-type"})


# Clients send the same few names again and again.
_NAMES: dict[bytes, str] = {}
_MOST_NAMES = 256


class _Refused(Exception):
    """The client asked for what it does not get."""

    def __init__(self, status: int, reason: str) -> None:
        self.response = Response(status, f"{reason}\n".encode())
        super().__init__(reason)


class Conversation(asyncio.Protocol):
    """Reads requests and writes answers."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._limits = server.limits
        self._clock = server.clock
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._line: deque[Request | Response] = deque()
        self._busy = self._reading_paused = self._writing_paused = False
        self._deaf = self._lingering = self._promised = self._head_done = False
        self._refused: _Refused | None = None
        self._phase = 0
        self.deadline = inf
        self._fresh()

    def _fresh(self) -> None:
        """Ready for the next request."""
        self._url = b""
        self._headers: dict[str, str] = {}
        self._header_bytes = self._body_bytes = 0
        self._pairs: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._receiving = False

    # What the server calls.

    def late(self) -> None:
        """The patience is over."""
        if self._receiving and not self._deaf and not self._busy and not self._lingering:
            self._refuse(_Refused(408, "the request took too long"))
        else:
            self.abort()

    def wind_up(self) -> None:
        """Finish what was begun; close now if that is nothing."""
        if not self._busy and not self._line and not self._receiving and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        if not self._server.joined(self):
            # No lingering here: whoever is not wanted must not cost a place.
            self._deaf = True
            self._transport.write(
                encoded(Response(503, b"too many connections\n"), bodiless=False, close=True)
            )
            self._transport.close()
            return
        self.deadline = self._clock.monotonic() + self._limits.head_seconds

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone. What is worked on goes on: its answer reaches nobody."""
        self._transport = None
        self._line.clear()
        self._server.left(self)

    def eof_received(self) -> bool:
        """The client sends no more, and may still wait for answers."""
        self._deaf = True
        return (self._busy or bool(self._line)) and not self._lingering

    def pause_writing(self) -> None:
        """The client does not fetch its answers: none are made until it does."""
        self._writing_paused = True
        self.deadline = self._clock.monotonic() + self._limits.send_seconds

    def resume_writing(self) -> None:
        """The client fetches again."""
        self._writing_paused = False
        if not self._lingering:
            self._await_next()
            self._next()

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        if self._deaf or self._lingering:
            return
        within_head = self._receiving and not self._head_done
        phase = self._phase
        if not self._receiving:
            self._begin()
        try:
            self._parser.feed_data(data)
            if within_head and not self._head_done:
                # llhttp keeps a name or value of any length until it is whole; these bytes are of one head.
                self._count(len(data))
        except httptools.HttpParserUpgrade:
            # The rest is not HTTP as we know it: what came before is answered, nothing after it.
            self._deaf = True
        except (httptools.HttpParserError, _Refused) as error:
            self._refuse(self._refused or _Refused(400, f"not a valid request: {error}"))
        if self._receiving and self._phase != phase:
            self._await_next()

    # What httptools calls.

    def on_message_begin(self) -> None:
        """A request begins."""
        if not self._receiving:
            self._begin()

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; nothing behind a chunked body may change what was asked before."""
        if self._head_done:
            self._count(len(name) + len(value) + 4)
        else:
            self._pairs.append((name, value))

    def on_headers_complete(self) -> None:
        """What is asked is known; the body may follow."""
        self._head_done = True
        self._phase += 1
        headers = self._headers = self._collected()
        if self._parser.get_http_version() == "1.1":
            if "host" not in headers:
                self._stop(400, "the header Host is missing")
        elif "transfer-encoding" in headers:
            self._stop(400, "HTTP/1.0 has no Transfer-Encoding")
        length = headers.get("content-length", "")
        if self._parser.should_upgrade() and (length or "transfer-encoding" in headers):
            self._stop(400, "a request with a body cannot change the protocol")
        if length and int(length) > self._limits.body_bytes:
            self._too_large()
        if (expected := headers.get("expect")) is not None:
            if expected.lower() != "100-continue":
                self._stop(417, "only 100-continue can be expected")
            self._promise()

    def on_body(self, data: bytes) -> None:
        """A part of the body."""
        self._body_bytes += len(data)
        if self._body_bytes > self._limits.body_bytes:
            self._too_large()
        self._body.append(data)

    def on_message_complete(self) -> None:
        """A request is whole."""
        body = self._body
        path, query = self._target()
        request = Request(
            self._parser.get_method().decode("latin-1"),
            path,
            query,
            self._headers,
            body[0] if len(body) == 1 else b"".join(body),
            self._keep_alive(),
        )
        self._fresh()
        self._promised = False
        if not self._writing_paused:
            self.deadline = inf
        if not request.keep_alive:
            self._deaf = True
        self._line.append(request)
        self._next()
        if len(self._line) >= self._limits.pipelined and not self._reading_paused:
            self._reading_paused = True
            if self._transport is not None:
                self._transport.pause_reading()

    # Reading.

    def _begin(self) -> None:
        self._receiving = True
        self._head_done = False
        self._phase += 1

    def _expect(self, seconds: float) -> None:
        """Wait so long for the client, unless it waits for us, or does not fetch what it has got."""
        if not self._busy and not self._writing_paused:
            self.deadline = self._clock.monotonic() + seconds

    def _collected(self) -> dict[str, str]:
        """The headers by name."""
        headers: dict[str, str] = {}
        size = 0
        for name, value in self._pairs:
            size += len(name) + len(value) + 4
            key = _NAMES.get(name) or _name(name)
            if key not in headers:
                headers[key] = value.decode("latin-1")
            elif key in _ONCE:
                self._stop(400, f"the header {key} must not be given twice")
            else:
                headers[key] += f", {value.decode('latin-1')}"
        self._header_bytes = max(size + len(self._url), self._header_bytes)
        self._count(0)
        return headers

    def _keep_alive(self) -> bool:
        # After an upgrade, which we do not make, what follows may be anything.
        parser = self._parser
        return bool(
            parser.should_keep_alive() and parser.get_http_version() == "1.1" and not parser.should_upgrade()
        )

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > self._limits.header_bytes or len(self._pairs) > self._limits.headers:
            self._stop(431, "the headers are too many or too large")

    def _target(self) -> tuple[str, str]:
        try:
            return split_target(self._url)
        except httptools.HttpParserError:
            self._stop(400, "the target of the request is not valid")
            raise

    def _promise(self) -> None:
        """Tell the client to send the body, once it is its turn."""
        if self._busy or self._line:
            self._promised = True
        elif self._transport is not None:
            self._transport.write(_CONTINUE)

    def _too_large(self) -> None:
        self._stop(413, f"the body is larger than {self._limits.body_bytes} bytes")

    def _stop(self, status: int, reason: str) -> None:
        """End reading from within the parser, which hides the reason of an exception."""
        self._refused = _Refused(status, reason)
        raise self._refused

    def _refuse(self, refused: _Refused) -> None:
        """The last word, when those before it were said."""
        self._deaf = True
        self._line.append(refused.response)
        self._next()

    # Answering.

    def _next(self) -> None:
        """Work on what is next in line."""
        while self._line and not self._busy and not self._writing_paused and self._transport is not None:
            head = self._line.popleft()
            if isinstance(head, Response):
                self._say_goodbye(head)
                return
            self._busy = True
            self._handle(head)
        if self._reading_paused and len(self._line) < self._limits.pipelined:
            self._reading_paused = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()
        if self._promised and not self._busy and not self._line and self._transport is not None:
            self._promised = False
            self._transport.write(_CONTINUE)

    def _handle(self, request: Request) -> None:
        try:
            answer = self._server.handler(request)
        except Exception:
            self._answer(request, _failed(request))
            return
        if isinstance(answer, Response):
            self._answer(request, answer)
            return
        if isinstance(answer, Later):
            answer.tell(functools.partial(self._settled, request))
            return
        future = answer if isinstance(answer, asyncio.Future) else self._loop.create_task(_awaited(answer))

        def done(future: asyncio.Future[Response]) -> None:
            if future.cancelled():
                response = Response(503, b"the request was not finished\n")
            elif future.exception() is not None:
                response = _failed(request, future.exception())
            else:
                response = future.result()
            self._settled(request, response)

        future.add_done_callback(done)

    def _settled(self, request: Request, response: Response) -> None:
        self._answer(request, response)
        self._next()

    def _answer(self, request: Request, response: Response) -> None:
        self._busy = False
        if self._transport is None:
            return
        close = (
            not request.keep_alive
            or (self._server.stopping and not self._line and not self._receiving)
            or (bool(response.headers) and response.headers.get("Connection") == "close")
        )
        bodiless = request.method == "HEAD"
        try:
            data = encoded(response, bodiless=bodiless, close=close)
        except ValueError:
            data = encoded(_failed(request), bodiless=bodiless, close=close)
        self._transport.write(data)
        if close:
            self._close(self._transport)
        else:
            self._await_next()

    def _await_next(self) -> None:
        """From now on the client is waited for."""
        if self._receiving:
            self._expect(self._limits.body_seconds if self._head_done else self._limits.head_seconds)
        elif not self._busy and not self._line:
            if self._deaf and self._transport is not None:
                self._close(self._transport)  # it has sent its last request
            else:
                self._expect(self._limits.idle_seconds)

    def _close(self, transport: asyncio.Transport) -> None:
        """Close once the client has fetched everything, which it must do in time."""
        self.deadline = self._clock.monotonic() + self._limits.send_seconds
        transport.close()

    def _say_goodbye(self, response: Response) -> None:
        """Tell the reason, and read the rest away for a moment: cutting at once could destroy the answer."""
        assert self._transport is not None, "there is a client"
        self._lingering = True
        self._transport.write(encoded(response, bodiless=False, close=True))
        if self._transport.can_write_eof():
            self._transport.write_eof()
            self.deadline = self._clock.monotonic() + self._limits.linger_seconds
        else:
            self._transport.close()


def _name(name: bytes) -> str:
    """The name of a header in lower case, kept for the next time as long as they are few."""
    text = name.decode("latin-1").lower()
    if len(_NAMES) < _MOST_NAMES and len(text) < 64:
        _NAMES[name] = text
    return text


async def _awaited(answer: Awaitable[Response]) -> Response:
    return await answer


def _failed(request: Request, error: BaseException | None = None) -> Response:
    logger.error("answering %s %s failed", request.method, request.path, exc_info=error or True)
    return Response(500, b"internal error\n")
