"""The server side of one client connection: requests in, responses out, in order and within limits.

Requests that arrive while another one is handled are queued. While the queue is full, the connection is not
read. A client that sends an invalid request gets an error response, then the connection closes.
"""

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Awaitable
from math import inf
from typing import TYPE_CHECKING, cast

from quintet.web.messages import DeferredResponse, Request, Response, encode_response, encode_stream_head
from quintet.web.request_parser import RequestError, RequestParser
from quintet.web.streaming import ResponseStream, StreamedResponse

if TYPE_CHECKING:
    from quintet.web.server import Server

logger = logging.getLogger(__name__)

BUSY = (2, inf)
"""The eviction order of a connection that must not be evicted: the client waits for our response."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class ServerConnection(asyncio.Protocol):
    """Reads the requests of one client and writes the responses."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._limits = server.limits
        self._clock = server.clock
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = RequestParser(server, self)
        self._queue: deque[Request | Response] = deque()
        self._busy = self._reading_paused = self._writing_paused = False
        self._ignore_input = self._lingering = self._continue_pending = False
        self._stream: ResponseStream | None = None
        self.deadline = inf
        self._waiting_since = self._clock.monotonic()

    # Called by the server.

    def eviction_order(self) -> tuple[int, float]:
        """Return the sort key for eviction from a full server: idle clients, then slow ones, oldest first.

        A client that is sending a request, or not reading its response, may only be slow.
        """
        if self._busy or self._queue:
            return (1, self._waiting_since) if self._writing_paused else BUSY
        return (1 if self._parser.receiving else 0), self._waiting_since

    def handle_timeout(self) -> None:
        """Close the connection after its deadline; with 408 if a request is incomplete."""
        if self._parser.receiving and not self._ignore_input and not self._busy and not self._lingering:
            self._reject(RequestError(408, "the request took too long"))
        else:
            self.abort()

    def finish(self) -> None:
        """Close the connection after the requests in progress; immediately if there are none."""
        if self._stream is not None:
            self._stream.cancel()
        if self._busy or self._queue or self._parser.receiving or self._transport is None:
            return
        if self._parser.phase == 0:
            # The client has only just connected. Closing now would lose the request that it is sending.
            self._set_deadline(self._limits.linger_seconds)
        else:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection immediately."""
        if self._transport is not None:
            self._transport.abort()

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection, or reject it if the server is full."""
        self._transport = cast(asyncio.Transport, transport)
        if not self._server.add_connection(self):
            # Close without lingering: a rejected connection must not use resources.
            self._ignore_input = True
            self._transport.write(
                encode_response(Response(503, b"too many connections\n"), head_only=False, close=True)
            )
            self._transport.close()
            return
        self._set_deadline(self._limits.head_seconds)

    def connection_lost(self, error: Exception | None) -> None:
        """Release the buffers. Handlers in progress continue; their responses are dropped."""
        self._transport = None
        if self._stream is not None:
            self._stream.cancel()
        self._parser.release_buffer()
        for queued in self._queue:
            if isinstance(queued, Request):
                self._server.buffered -= len(queued.body)
        self._queue.clear()
        self._server.remove_connection(self)

    def eof_received(self) -> bool:
        """Keep the connection open while responses are pending."""
        self._ignore_input = True
        return (self._busy or bool(self._queue)) and not self._lingering and self._stream is None

    def pause_writing(self) -> None:
        """Handle no more requests until the client has read its responses."""
        self._writing_paused = True
        self._set_deadline(self._limits.send_seconds)
        if self._stream is not None:
            self._stream.pause()

    def resume_writing(self) -> None:
        """Continue with the queued requests."""
        self._writing_paused = False
        if self._stream is not None:
            self.deadline = inf
            self._stream.resume()
        if not self._lingering:
            self._await_client()
            self._handle_queue()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes."""
        if self._ignore_input or self._lingering:
            return
        parser = self._parser
        phase = parser.phase
        try:
            parser.feed(data)
        except RequestError as error:
            self._reject(error)
        if parser.receiving and parser.phase != phase and not self._lingering:
            self._await_client()

    # Called by the request parser.

    def send_continue(self) -> None:
        """Send `100 Continue`, after the responses to earlier requests."""
        if self._busy or self._queue:
            self._continue_pending = True
        elif self._transport is not None:
            self._transport.write(_CONTINUE)

    def enqueue(self, request: Request) -> None:
        """Queue a complete request, and handle it if it is the only one."""
        self._continue_pending = False
        if not self._writing_paused:
            self.deadline = inf
        if not request.keep_alive:
            self._ignore_input = True
        self._queue.append(request)
        self._handle_queue()
        if len(self._queue) >= self._limits.pipelined and not self._reading_paused:
            self._reading_paused = True
            if self._transport is not None:
                self._transport.pause_reading()

    def _reject(self, error: RequestError) -> None:
        """Queue an error response as the last response."""
        self._ignore_input = True
        self._queue.append(error.response)
        self._handle_queue()

    # Responses.

    def _handle_queue(self) -> None:
        """Handle queued requests until one is pending or the client has to read."""
        while self._queue and not self._busy and not self._writing_paused and self._transport is not None:
            head = self._queue.popleft()
            if isinstance(head, Response):
                self._send_last(head)
                return
            self._busy = True
            self._handle(head)
        if self._reading_paused and len(self._queue) < self._limits.pipelined:
            self._reading_paused = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()
        if self._continue_pending and not self._busy and not self._queue and self._transport is not None:
            self._continue_pending = False
            self._transport.write(_CONTINUE)

    def _handle(self, request: Request) -> None:
        try:
            result = self._server.handler(request)
        except Exception:
            self._send(request, _internal_error(request))
            return
        if isinstance(result, Response):
            self._send(request, result)
            return
        if isinstance(result, StreamedResponse):
            self._start_stream(request, result)
            return
        if isinstance(result, DeferredResponse):
            result.on_set(functools.partial(self._send_and_continue, request))
            return
        future = result if isinstance(result, asyncio.Future) else self._loop.create_task(_await(result))

        def done(future: asyncio.Future[Response]) -> None:
            if future.cancelled():
                response = Response(503, b"the request was cancelled\n")
            elif future.exception() is not None:
                response = _internal_error(request, future.exception())
            else:
                response = future.result()
            self._send_and_continue(request, response)

        future.add_done_callback(done)

    def _send_and_continue(self, request: Request, response: Response) -> None:
        self._send(request, response)
        self._handle_queue()

    def _send(self, request: Request, response: Response) -> None:
        self._busy = False
        self._server.buffered -= len(request.body)
        if self._transport is None:
            return
        close = (
            not request.keep_alive
            or (self._server.draining and not self._queue and not self._parser.receiving)
            or (bool(response.headers) and response.headers.get("Connection") == "close")
        )
        head_only = request.method == "HEAD"
        try:
            data = encode_response(response, head_only=head_only, close=close)
        except ValueError:
            data = encode_response(_internal_error(request), head_only=head_only, close=close)
        self._transport.write(data)
        if request.truncated:
            self._linger(self._transport)
        elif close:
            self._close(self._transport)
        else:
            self._await_client()

    def _start_stream(self, request: Request, response: StreamedResponse) -> None:
        """Send the head and then each chunk; the end of the body is the end of the connection."""
        assert self._transport is not None, "the client is connected"
        transport = self._transport
        self._server.buffered -= len(request.body)
        self._ignore_input = True
        transport.write(encode_stream_head(response.content_type, response.headers))
        if request.method == "HEAD":
            self._close(transport)
            return

        def end() -> None:
            if not transport.is_closing():
                self._close(transport)

        self._stream = ResponseStream(response.chunks, transport, end)

    def _set_deadline(self, seconds: float) -> None:
        self._waiting_since = self._clock.monotonic()
        self.deadline = self._waiting_since + seconds
        self._server.schedule_timeout(self.deadline)

    def _await_client(self) -> None:
        """Set the deadline for what the client has to do next; none while it waits for a response."""
        if self._parser.receiving:
            seconds = self._limits.body_seconds if self._parser.head_done else self._limits.head_seconds
        elif self._busy or self._queue:
            return
        elif self._ignore_input and self._transport is not None:
            self._close(self._transport)  # the client has sent its last request
            return
        else:
            seconds = self._limits.idle_seconds
        if not self._busy and not self._writing_paused:
            self._set_deadline(seconds)

    def _close(self, transport: asyncio.Transport) -> None:
        """Close the connection once the client has read everything, at the latest at the deadline."""
        self._set_deadline(self._limits.send_seconds)
        transport.close()

    def _send_last(self, response: Response) -> None:
        """Send an error response and read no more requests."""
        assert self._transport is not None, "the client is connected"
        self._transport.write(encode_response(response, head_only=False, close=True))
        self._linger(self._transport)

    def _linger(self, transport: asyncio.Transport) -> None:
        """Discard input for a moment: closing with unread input could destroy the response."""
        self._lingering = True
        self._set_deadline(self._limits.linger_seconds)
        if transport.can_write_eof():
            transport.write_eof()


async def _await(result: Awaitable[Response]) -> Response:
    return await result


def _internal_error(request: Request, error: BaseException | None = None) -> Response:
    logger.error("Request handler failed: %s %s", request.method, request.path, exc_info=error or True)
    return Response(500, b"internal error\n")
