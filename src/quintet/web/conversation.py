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

from quintet.web.messages import Later, Request, Response, encoded
from quintet.web.reading import Reader, Refused

if TYPE_CHECKING:
    from quintet.web.server import Server

logger = logging.getLogger(__name__)

WORKING = (2, inf)
"""The place of a client that waits for us, among those of whom one must go."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Conversation(asyncio.Protocol):
    """Reads requests and writes answers."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._limits = server.limits
        self._clock = server.clock
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = Reader(server, self)
        self._line: deque[Request | Response] = deque()
        self._busy = self._reading_paused = self._writing_paused = False
        self._deaf = self._lingering = self._promised = False
        self.deadline = inf
        self._waiting_since = self._clock.monotonic()

    # What the server calls.

    def by_patience(self) -> tuple[int, float]:
        """Return who must go first where it is full: idle clients, then slow ones, those of old first.

        A client that is sending a request, or does not fetch its answer, may be only slow.
        """
        if self._busy or self._line:
            return (1, self._waiting_since) if self._writing_paused else WORKING
        return (1 if self._reader.receiving else 0), self._waiting_since

    def late(self) -> None:
        """The patience is over."""
        if self._reader.receiving and not self._deaf and not self._busy and not self._lingering:
            self._refuse(Refused(408, "the request took too long"))
        else:
            self.abort()

    def wind_up(self) -> None:
        """Finish what was begun; close now if that is nothing."""
        if self._busy or self._line or self._reader.receiving or self._transport is None:
            return
        if self._reader.phase == 0:
            # It has only just connected. Its first request is on the way, and would be lost without a word.
            self._wait(self._limits.linger_seconds)
        else:
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
        self._wait(self._limits.head_seconds)

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone. What is worked on goes on: its answer reaches nobody."""
        self._transport = None
        self._reader.let_go()
        for waiting in self._line:
            if isinstance(waiting, Request):
                self._server.buffered -= len(waiting.body)
        self._line.clear()
        self._server.left(self)

    def eof_received(self) -> bool:
        """The client sends no more, and may still wait for answers."""
        self._deaf = True
        return (self._busy or bool(self._line)) and not self._lingering

    def pause_writing(self) -> None:
        """The client does not fetch its answers: none are made until it does."""
        self._writing_paused = True
        self._wait(self._limits.send_seconds)

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
        reader = self._reader
        phase = reader.phase
        try:
            reader.feed(data)
        except Refused as refused:
            self._refuse(refused)
        if reader.receiving and reader.phase != phase and not self._lingering:
            self._await_next()

    # What the reader calls.

    def promise(self) -> None:
        """The client waits for permission to send the body: it gets that once it is its turn."""
        if self._busy or self._line:
            self._promised = True
        elif self._transport is not None:
            self._transport.write(_CONTINUE)

    def arrived(self, request: Request) -> None:
        """A request is whole."""
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

    def _refuse(self, refused: Refused) -> None:
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
        self._server.buffered -= len(request.body)
        if self._transport is None:
            return
        close = (
            not request.keep_alive
            or (self._server.draining and not self._line and not self._reader.receiving)
            or (bool(response.headers) and response.headers.get("Connection") == "close")
        )
        bodiless = request.method == "HEAD"
        try:
            data = encoded(response, bodiless=bodiless, close=close)
        except ValueError:
            data = encoded(_failed(request), bodiless=bodiless, close=close)
        self._transport.write(data)
        if request.truncated:
            self._linger(self._transport)
        elif close:
            self._close(self._transport)
        else:
            self._await_next()

    def _wait(self, seconds: float) -> None:
        self._waiting_since = self._clock.monotonic()
        self.deadline = self._waiting_since + seconds
        self._server.look_by(self.deadline)

    def _expect(self, seconds: float) -> None:
        """Wait so long for the client, unless it waits for us, or does not fetch what it has got."""
        if not self._busy and not self._writing_paused:
            self._wait(seconds)

    def _await_next(self) -> None:
        """From now on the client is waited for."""
        if self._reader.receiving:
            self._expect(self._limits.body_seconds if self._reader.head_done else self._limits.head_seconds)
        elif not self._busy and not self._line:
            if self._deaf and self._transport is not None:
                self._close(self._transport)  # it has sent its last request
            else:
                self._expect(self._limits.idle_seconds)

    def _close(self, transport: asyncio.Transport) -> None:
        """Close once the client has fetched everything, which it must do in time."""
        self._wait(self._limits.send_seconds)
        transport.close()

    def _say_goodbye(self, response: Response) -> None:
        """Tell why nothing more is read."""
        assert self._transport is not None, "there is a client"
        self._transport.write(encoded(response, bodiless=False, close=True))
        self._linger(self._transport)

    def _linger(self, transport: asyncio.Transport) -> None:
        """Read the rest away for a moment: cutting at once could destroy the answer."""
        self._lingering = True
        self._wait(self._limits.linger_seconds)
        if transport.can_write_eof():
            transport.write_eof()


async def _awaited(answer: Awaitable[Response]) -> Response:
    return await answer


def _failed(request: Request, error: BaseException | None = None) -> Response:
    logger.error("answering %s %s failed", request.method, request.path, exc_info=error or True)
    return Response(500, b"internal error\n")
