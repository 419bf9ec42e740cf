"""NATS: protocol lines, headers, responses of JetStream, and the messages of a pull consumer."""

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from fuzz.splits import split
from kit.clock import VirtualClock
from quintet.nats import protocol
from quintet.nats.connection import _fatal_error
from quintet.nats.errors import NatsError, NotPermitted, ProtocolError
from quintet.nats.jetstream import JetStream, parse_ack
from quintet.nats.messages import Message, encode_headers
from quintet.nats.protocol import Parser, ProtocolEvent, ServerError
from quintet.nats.pull_consumer import Delivery, PullConsumer


def read_events(pieces: list[bytes]) -> tuple[list[ProtocolEvent], bool]:
    """Return the events of a stream, and whether it is invalid."""
    parser, events = Parser(), []
    for piece in pieces:
        events += parser.feed(piece)
        kept = sum(map(len, parser._parts))
        assert kept <= protocol.MAX_LINE + protocol.MAX_PAYLOAD + len(piece), "the parser keeps too much"
    return events, parser.broken is not None


def check_protocol(data: bytes) -> None:
    """The client reads the same events however a stream is split, and can read every message."""
    results = [read_events(pieces) for pieces in split(data)]
    for each in results[1:]:
        assert each == results[0], f"{each}\nat once: {results[0]}"
    for event in results[0][0]:
        if isinstance(event, Message):
            _check_message(event)
        elif isinstance(event, ServerError):
            _fatal_error(event.text)


def _check_message(message: Message) -> None:
    assert 0 <= message.status <= 999
    assert isinstance(message.status_text, str)
    headers = dict(message.headers or {})
    # What was read can be sent again, unless a name or value has a line break of its own.
    with contextlib.suppress(ProtocolError):
        again = Message("a", b"", head=encode_headers(headers) if headers else b"")
        assert dict(again.headers or {}) == headers


class _Client:
    """A client whose every request gets the same response."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self.clock = VirtualClock()
        self.requests = 0
        self.connected = True
        self.on_change: list[Callable[[bool], None]] = []
        self.on_refusal: list[Callable[[str, NotPermitted], None]] = []
        self.sent: list[bytes] = []

    async def send_request(self, *_: object) -> Message:
        self.requests += 1
        assert self.requests <= 400, "a response causes requests without end"
        return Message("reply", self._payload)

    def publish(self, subject: str, payload: bytes, **_: object) -> None:
        self.sent.append(payload)

    def new_inbox(self) -> str:
        return "_INBOX.a.1"

    def subscribe(self, subject: str, callback: object) -> "_Subscription":
        return _Subscription(subject)

    def ping(self, on_pong: Callable[[Exception | None], None]) -> None:
        on_pong(None)


class _Subscription:
    def __init__(self, subject: str) -> None:
        self.subject = subject

    def unsubscribe(self) -> None:
        pass


def _run(coroutine: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine that never waits; only errors of NATS may come out of it."""
    with contextlib.suppress(StopIteration, NatsError):
        coroutine.send(None)
        raise AssertionError("the coroutine waits")


def check_jetstream(data: bytes) -> None:
    """Every response of JetStream is a result or a `NatsError`."""
    with contextlib.suppress(NatsError):
        assert parse_ack(Message("reply", data)).stream
    client: Any = _Client(data)
    jetstream = JetStream(client)
    for call in (
        jetstream.account_info(),
        jetstream.stream_info("s"),
        jetstream.consumer_info("s", "c"),
        jetstream.delete_stream("s"),
        jetstream.get_message("s", 1),
        jetstream.publish("a", b""),
        jetstream.consumers("s"),
    ):
        client.requests = 0
        _run(call)


def check_deliveries(data: bytes) -> None:
    """A pull consumer counts its messages correctly, whatever the server sends."""
    client: Any = _Client(b"")
    delivered: list[Delivery] = []
    consumer = PullConsumer(client, "s", "c", delivered.append, batch=8, expires=30.0, heartbeat=5.0)
    for event in read_events([data])[0]:
        if not isinstance(event, Message):
            continue
        with contextlib.suppress(ProtocolError):  # the client logs it
            consumer._on_message(event)
        assert consumer.in_flight == sum(not each.is_acknowledged for each in delivered)
        assert consumer._requested >= 0
        if len(delivered) % 3 == 2:
            delivered[-1].ack()
            delivered[-1].nak(1.0)
    for delivery in delivered:
        delivery.term("end")
    assert consumer.in_flight == 0
