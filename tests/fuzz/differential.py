"""What other implementations read from the same bytes: h11 for HTTP, nats-py for NATS."""

import asyncio
from typing import Any, NamedTuple

import h11
from nats.protocol.parser import Parser as NatsPyParser

from fuzz.http import read_requests, read_response
from fuzz.nats import read_events
from quintet.nats.messages import Message
from quintet.nats.protocol import Parser, Ping, Pong, ServerError, ServerInfo
from quintet.web.server import ServerLimits

# Larger than any input: the limits have tests of their own.
LIMITS = ServerLimits(header_bytes=1 << 16, headers=10_000)


class Reading(NamedTuple):
    """What an implementation reads: complete messages, and whether it rejects what follows them."""

    messages: tuple[tuple[object, ...], ...]
    rejected: bool
    reason: str = ""


def read_requests_ours(data: bytes) -> Reading:
    """Return method, path and body of each request that our server reads."""
    found = read_requests([data], LIMITS)
    requests = tuple((each[0], each[4]) for each in found.requests)
    if found.status:
        return Reading(requests, rejected=True, reason=f"{found.status} {found.reason}")
    closes = bool(found.requests) and not found.requests[-1][5]
    return Reading(requests, rejected=False, reason="closes" if closes else "waits")


def read_requests_h11(data: bytes) -> Reading:
    """Return method and body of each request that h11 reads."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 16)
    connection.receive_data(data)
    requests: list[tuple[object, ...]] = []
    method, body = "", b""
    try:
        while True:
            match connection.next_event():
                case h11.Request() as request:
                    method, body = request.method.decode(), b""
                case h11.Data() as part:
                    body += bytes(part.data)
                case h11.EndOfMessage():
                    requests.append((method, body))
                    connection.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
                    connection.send(h11.EndOfMessage())
                    if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                        return Reading(tuple(requests), rejected=False, reason="closed")
                    connection.start_next_cycle()
                case _:
                    return Reading(tuple(requests), rejected=False)
    except h11.RemoteProtocolError as error:
        return Reading(tuple(requests), rejected=True, reason=str(error))


def read_response_ours(data: bytes) -> Reading:
    """Return status and body of the response that our client reads."""
    found = read_response([data])
    complete = ((found.status, found.body),) if found.complete else ()
    return Reading(complete, not found.complete, found.reason)


def read_response_h11(data: bytes) -> Reading:
    """Return status and body of the response that h11 reads."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 16)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    connection.send(h11.EndOfMessage())
    status, body = 0, b""
    try:
        connection.receive_data(data)
        connection.receive_data(b"")
        while True:
            match connection.next_event():
                case h11.Response() as response:
                    status = response.status_code
                case h11.Data() as part:
                    body += bytes(part.data)
                case h11.EndOfMessage():
                    return Reading(((status, body),), rejected=False)
                case h11.ConnectionClosed() | h11.NEED_DATA | h11.PAUSED:
                    return Reading((), rejected=True, reason="closed")
    except h11.RemoteProtocolError as error:
        return Reading((), rejected=True, reason=str(error))


def read_events_ours(data: bytes) -> Reading:
    """Return the events that our client reads."""
    events, broken = read_events([data])
    found: list[tuple[object, ...]] = []
    for event in events:
        match event:
            case Message():
                found.append(
                    ("msg", event.subject, event.subscription, event.reply, event.payload, event.head)
                )
            case Ping():
                found.append(("ping",))
            case Pong():
                found.append(("pong",))
            case ServerInfo():
                found.append(("info", event.server_id))
            case ServerError():
                found.append(("error", event.text.lower()))  # as nats-py does
    parser = Parser()
    parser.feed(data)
    return Reading(tuple(found), broken, str(parser.broken or ""))


class _Recorder:
    """A client of nats-py, as far as its parser uses one."""

    def __init__(self) -> None:
        self.found: list[tuple[object, ...]] = []

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, header: Any) -> None:
        self.found.append(
            ("msg", subject.decode(), sid, bytes(reply).decode(), bytes(data), bytes(header or b""))
        )

    async def _process_ping(self) -> None:
        self.found.append(("ping",))

    async def _process_pong(self) -> None:
        self.found.append(("pong",))

    async def _process_err(self, text: str) -> None:
        self.found.append(("error", text.strip().strip("'")))

    async def _process_info(self, info: dict[str, Any]) -> None:
        self.found.append(("info", info.get("server_id", "")))


def read_events_nats_py(data: bytes) -> Reading:
    """Return the events that nats-py reads."""
    recorder = _Recorder()
    parser = NatsPyParser(recorder)

    async def parse() -> None:
        await parser.parse(data)

    try:
        _run(parse())
    except Exception as error:
        return Reading(tuple(recorder.found), rejected=True, reason=repr(error))
    return Reading(tuple(recorder.found), rejected=False, reason=f"waits with {bytes(parser.buf)!r}")


def _run(coroutine: Any) -> None:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise asyncio.InvalidStateError("the coroutine waits")
