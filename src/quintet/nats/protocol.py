"""The NATS client protocol: a parser for what the server sends, and encoders for what we send. Pure.

The parser returns the same events however the bytes are split, including the events before invalid bytes.
It buffers no more than the server has announced to send.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.nats.errors import ProtocolError
from quintet.nats.messages import Message, encode_headers

PING = b"PING\r\n"
PONG = b"PONG\r\n"
# Lines contain subjects and sizes. Only INFO is long, and grows with the cluster.
MAX_LINE = 1 << 20
# A server accepts 4096 by default and closes the connection of a client that sends more.
_MAX_COMMAND = 4000
# The highest limit that NATS recommends; a malicious server must not fill our memory.
MAX_PAYLOAD = 8 << 20


class Ping(msgspec.Struct, frozen=True):
    """A PING of the server."""


class Pong(msgspec.Struct, frozen=True):
    """The PONG to our PING: the server has processed everything before it."""


class ServerInfo(msgspec.Struct, frozen=True):
    """The INFO of a server, sent first and whenever it changes."""

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    nonce: str = ""
    headers: bool = False
    jetstream: bool = False
    auth_required: bool = False
    tls_required: bool = False
    tls_available: bool = False
    ldm: bool = False
    max_payload: int = 1 << 20
    client_id: int = 0


class ServerError(msgspec.Struct, frozen=True):
    """An -ERR of the server."""

    text: str


ProtocolEvent = Message | Ping | Pong | ServerInfo | ServerError

_PING = Ping()
_PONG = Pong()
_info = msgspec.json.Decoder(ServerInfo)


class Parser:
    """Parses the bytes of a server into events."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._have = 0
        self._need = 0
        self.broken: ProtocolError | None = None
        """Why parsing stopped; None while the stream is valid."""

    def feed(self, data: bytes) -> list[ProtocolEvent]:
        """Parse bytes and return the events that they complete."""
        if self.broken is not None:
            return []
        if self._parts:
            self._parts.append(data)
            self._have += len(data)
            # The pieces of a large message are joined once, not after each piece.
            if self._have < self._need:
                return []
            data = b"".join(self._parts)
            self._parts = []
        events: list[ProtocolEvent] = []
        try:
            self._read(data, events)
        except ProtocolError as error:
            self.broken = error
            self._parts = []
        return events

    def _read(self, data: bytes, events: list[ProtocolEvent]) -> None:
        position, length = 0, len(data)
        self._need = 0
        while position < length:
            end = data.find(b"\n", position)
            if end < 0:
                if length - position > MAX_LINE:
                    raise ProtocolError("a line is too long")
                break
            line = data[position:end]
            first = line[:1]
            if first == b"M" or first == b"H":
                message = self._parse_message(line, data, end + 1, length)
                if message is None:
                    break
                events.append(message)
                position = end + 1 + len(message.head) + len(message.payload) + 2
            else:
                if (event := _parse_control(line)) is not None:
                    events.append(event)
                position = end + 1
        if position < length:
            self._parts = [data[position:]]
            self._have = length - position
            self._need = max(0, self._need - position)

    def _parse_message(self, line: bytes, data: bytes, start: int, length: int) -> Message | None:
        """Return the message that a line announces; None if it is incomplete."""
        fields = line.split()
        count = len(fields)
        try:
            if fields[0] == b"MSG" and 4 <= count <= 5:
                head_size, size = 0, _parse_number(fields[-1])
                reply = fields[3] if count == 5 else b""
            elif fields[0] == b"HMSG" and 5 <= count <= 6:
                head_size, size = _parse_number(fields[-2]), _parse_number(fields[-1])
                reply = fields[3] if count == 6 else b""
            else:
                raise ProtocolError(f"invalid line: {line[:60]!r}")
            if not 0 <= head_size <= size <= MAX_PAYLOAD:
                raise ProtocolError(f"invalid message size: {line[:60]!r}")
            end = start + size
            if end + 2 > length:
                self._need = end + 2
                return None
            if data[end : end + 2] != b"\r\n":
                raise ProtocolError("a message does not end at its announced size")
            body = start + head_size
            subscription = _parse_number(fields[2])
            return Message(fields[1].decode(), data[body:end], reply.decode(), data[start:body], subscription)
        except ValueError as error:  # an invalid number or subject
            raise ProtocolError(f"invalid line: {line[:60]!r}") from error


def _parse_number(text: bytes) -> int:
    """Return a number; raise ValueError for what only `int` accepts, such as 1_0 and +1."""
    if not text.isdigit():
        raise ValueError("not a number")
    return int(text)


def _parse_control(line: bytes) -> ProtocolEvent | None:
    """Parse a line that is not a message; return None for +OK."""
    verb = line[:5].rstrip().upper()
    if verb == b"PING":
        return _PING
    if verb == b"PONG":
        return _PONG
    if verb == b"INFO":
        try:
            return _info.decode(line[5:])
        except DECODE_ERRORS as error:
            raise ProtocolError(f"invalid INFO: {error}") from error
    if verb == b"-ERR":
        return ServerError(line[5:].strip().strip(b"'").decode("utf-8", "replace"))
    if verb == b"+OK":
        return None
    raise ProtocolError(f"invalid line: {line[:60]!r}")


def encode_connect(options: Mapping[str, Any], subscribe: bytes) -> bytes:
    """Return a CONNECT, an encoded SUB and a PING, whose PONG confirms both."""
    return b"CONNECT " + msgspec.json.encode(options) + b"\r\n" + subscribe + PING


def encode_publish(subject: str, payload: bytes, headers: Mapping[str, str] | None, reply: str) -> bytes:
    """Return a PUB, or an HPUB if there are headers."""
    destination = f"{subject} {reply}" if reply else subject
    head = encode_headers(headers) if headers else b""
    if head:
        line = f"HPUB {destination} {len(head)} {len(head) + len(payload)}\r\n".encode()
    else:
        line = f"PUB {destination} {len(payload)}\r\n".encode()
    if len(line) > _MAX_COMMAND:
        raise ProtocolError(f"the subject is too long: {subject[:60]!r}…")
    return b"".join((line, head, payload, b"\r\n"))


def encode_subscribe(subject: str, queue: str, sid: int) -> bytes:
    """Return a SUB."""
    return f"SUB {subject} {queue} {sid}\r\n".encode() if queue else f"SUB {subject} {sid}\r\n".encode()


def encode_unsubscribe(sid: int) -> bytes:
    """Return an UNSUB."""
    return f"UNSUB {sid}\r\n".encode()


def check_subject(subject: str) -> None:
    """Raise `ProtocolError` for a subject that would break the line: empty, or with blanks or line breaks."""
    if not subject or " " in subject or not subject.isprintable():
        raise ProtocolError(f"invalid subject: {subject[:60]!r}")
