"""HTTP: the request parser of the server and the response parser of the client, without sockets."""

import asyncio
from typing import Any, NamedTuple

from fuzz.splits import split
from quintet.web.connection import Connection
from quintet.web.messages import Request
from quintet.web.request_parser import RequestError, RequestParser
from quintet.web.server import ServerLimits

# Small, so that short inputs reach every limit.
LIMITS = ServerLimits(header_bytes=256, headers=8, body_bytes=64, buffered_bytes=160)
EXCERPTS = ServerLimits(header_bytes=256, headers=8, body_bytes=16, excerpt_bytes=8)

# llhttp does not say where a trailer ends, so which of several errors is found first depends on the split; and
# chunk extensions and white space in trailers are only bounded.
TRAILERS = "the trailers are too large"
UNCOUNTED = "the trailers or chunk extensions are too large"


class Requests(NamedTuple):
    """The requests that a server got from a stream, and what it rejected last."""

    requests: tuple[tuple[object, ...], ...]
    status: int = 0
    reason: str = ""


class _Recorder:
    """A server and a connection in one, as far as the parser uses them."""

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self.buffered = 0
        self.requests: list[Request] = []

    def enqueue(self, request: Request) -> None:
        self.requests.append(request)

    def send_continue(self) -> None:
        pass


def read_requests(pieces: list[bytes], limits: ServerLimits = LIMITS) -> Requests:
    """Return what the server reads from the pieces of a stream."""
    recorder: Any = _Recorder(limits)
    parser = RequestParser(recorder, recorder)
    status, reason = 0, ""
    for piece in pieces:
        try:
            parser.feed(piece)
        except RequestError as error:
            status, reason = error.response.status, error.response.body.decode().strip()
            break
        assert parser._head_bytes <= limits.header_bytes, "more of a head is kept than the limit allows"
        assert parser._body_bytes <= limits.body_bytes
    parser.release_buffer()
    held = sum(len(request.body) for request in recorder.requests)
    assert recorder.buffered == held, "the count of buffered bytes is wrong"
    return Requests(tuple(_values(each) for each in recorder.requests), status, reason)


def _values(request: Request) -> tuple[object, ...]:
    assert request.path
    assert len(request.body) <= LIMITS.body_bytes
    headers = tuple(sorted(request.headers.items()))
    body = bytes(request.body)
    return (request.method, request.path, request.query, headers, body, request.keep_alive, request.truncated)


def check_server(data: bytes) -> None:
    """The server reads the same requests however a stream is split."""
    for limits in (LIMITS, EXCERPTS):
        results = [read_requests(pieces, limits) for pieces in split(data)]
        if any(each.reason == UNCOUNTED for each in results):
            continue
        # Parsers name the position of an error differently; status and requests are what a client sees.
        either = any(each.reason == TRAILERS for each in results)
        results = [each._replace(status=400 if either and each.status else each.status) for each in results]
        want = results[0]
        for each in results[1:]:
            assert (each.requests, each.status) == (want.requests, want.status), f"{each}\nat once: {want}"


class Silent(asyncio.Transport):
    """A transport that discards everything."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Received(NamedTuple):
    """The response that a client got from a stream."""

    status: int
    body: bytes
    complete: bool
    reusable: bool
    retry_after: str | None
    failed: bool
    reason: str = ""


def read_response(pieces: list[bytes], *, eof: bool = True) -> Received:
    """Return what the client reads from the pieces of a stream, which then ends."""
    connection = _in_loop()
    connection.connection_made(Silent())
    connection.send(b"")
    for piece in pieces:
        if connection.lost:
            break
        connection.data_received(piece)
        # llhttp buffers no more than is counted.
        assert connection._head_bytes <= _MOST + len(piece)
        assert connection._bodiless_bytes <= 2 * _MOST + len(piece)
    reusable = connection.is_reusable
    failed = connection._error is not None and not connection.is_complete
    if eof and not connection.lost:
        connection.connection_lost(None)
    body = b"".join(connection._chunks)
    assert len(body) == connection._body_bytes
    return Received(
        connection.status if connection._started else 0,
        body,
        connection.is_complete,
        reusable,
        connection.retry_after if connection._started else None,
        failed,
        str(connection._error or ""),
    )


_MOST = 64 << 10
_loop: asyncio.AbstractEventLoop | None = None


def _in_loop() -> Connection:
    """Return a connection; a campaign has no running event loop, and a test may have one."""
    global _loop
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        _loop = _loop or asyncio.new_event_loop()
        asyncio._set_running_loop(_loop)
        try:
            return Connection()
        finally:
            asyncio._set_running_loop(None)
    return Connection()


def check_client(data: bytes) -> None:
    """The client reads the same response however a stream is split."""
    results = [read_response(pieces) for pieces in split(data)]
    # llhttp names an error that it finds at once, and asyncio one that it finds later.
    want, *others = (each._replace(reason="") for each in results)
    for each in others:
        assert each == want, f"{each}\nat once: {want}"
