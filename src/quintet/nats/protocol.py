"""The words of the NATS protocol: bytes in, events out; and what we send, as bytes. Pure.

Used by `wire`. However the bytes are split on their way, the events are the same, also those
before something that is no NATS. Nothing is kept beyond what the server announced it would send.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.nats.errors import ProtocolError
from quintet.nats.messages import Message, encoded_headers

PING = b"PING\r\n"
PONG = b"PONG\r\n"
# A line names subjects and sizes; only INFO is long, and a large cluster makes it longer.
LONGEST_LINE = 1 << 20
# A server takes 4096 by default, and ends the connection of whoever sends more: all others would suffer.
_LONGEST_COMMAND = 4000
# What NATS itself advises as the most; nobody sends us such events, and a stranger must not fill our memory.
MOST_PAYLOAD = 8 << 20


class Ping(msgspec.Struct, frozen=True):
    """The server asks whether we are there."""


class Pong(msgspec.Struct, frozen=True):
    """The server has read everything up to our PING."""


class ServerInfo(msgspec.Struct, frozen=True):
    """What a server says of itself, at the beginning and whenever it changes."""

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


class Refusal(msgspec.Struct, frozen=True):
    """An -ERR of the server."""

    text: str


Event = Message | Ping | Pong | ServerInfo | Refusal

_PING = Ping()
_PONG = Pong()
_info = msgspec.json.Decoder(ServerInfo)


class Parser:
    """Makes events of what a server sends."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._have = 0
        self._need = 0
        self.broken: ProtocolError | None = None
        """Why nothing more can be read."""

    def feed(self, data: bytes) -> list[Event]:
        """Take bytes in; return what they complete."""
        if self.broken is not None:
            return []
        if self._parts:
            self._parts.append(data)
            self._have += len(data)
            # A large message comes in many pieces: they are joined once, not at each.
            if self._have < self._need:
                return []
            data = b"".join(self._parts)
            self._parts = []
        events: list[Event] = []
        try:
            self._read(data, events)
        except ProtocolError as error:
            self.broken = error
            self._parts = []
        return events

    def _read(self, data: bytes, events: list[Event]) -> None:
        position, length = 0, len(data)
        self._need = 0
        while position < length:
            end = data.find(b"\n", position)
            if end < 0:
                if length - position > LONGEST_LINE:
                    raise ProtocolError("a line without end")
                break
            line = data[position:end]
            first = line[:1]
            if first == b"M" or first == b"H":
                message = self._message(line, data, end + 1, length)
                if message is None:
                    break
                events.append(message)
                position = end + 1 + len(message.head) + len(message.payload) + 2
            else:
                if (event := _word(line)) is not None:
                    events.append(event)
                position = end + 1
        if position < length:
            self._parts = [data[position:]]
            self._have = length - position
            self._need = max(0, self._need - position)

    def _message(self, line: bytes, data: bytes, start: int, length: int) -> Message | None:
        """The message that a line announces; None if it is not whole yet."""
        words = line.split()
        count = len(words)
        try:
            if words[0] == b"MSG" and 4 <= count <= 5:
                head_size, size = 0, int(words[-1])
                reply = words[3] if count == 5 else b""
            elif words[0] == b"HMSG" and 5 <= count <= 6:
                head_size, size = int(words[-2]), int(words[-1])
                reply = words[3] if count == 6 else b""
            else:
                raise ProtocolError(f"not a line of NATS: {line[:60]!r}")
            if not 0 <= head_size <= size <= MOST_PAYLOAD:
                raise ProtocolError(f"a message of an impossible size: {line[:60]!r}")
            end = start + size
            if end + 2 > length:
                self._need = end + 2
                return None
            if data[end : end + 2] != b"\r\n":
                raise ProtocolError("a message that does not end where it should")
            body = start + head_size
            return Message(words[1].decode(), data[body:end], reply.decode(), data[start:body], int(words[2]))
        except ValueError as error:  # a number or a subject that is none
            raise ProtocolError(f"not a line of NATS: {line[:60]!r}") from error


def _word(line: bytes) -> Event | None:
    """Read a line that announces no message; nothing for +OK."""
    verb = line[:5].rstrip().upper()
    if verb == b"PING":
        return _PING
    if verb == b"PONG":
        return _PONG
    if verb == b"INFO":
        try:
            return _info.decode(line[5:])
        except DECODE_ERRORS as error:
            raise ProtocolError(f"INFO that cannot be read: {error}") from error
    if verb == b"-ERR":
        return Refusal(line[5:].strip().strip(b"'").decode("utf-8", "replace"))
    if verb == b"+OK":
        return None
    raise ProtocolError(f"not a line of NATS: {line[:60]!r}")


def connect(options: Mapping[str, Any]) -> bytes:
    """Return the login, and a PING whose answer says that it was accepted."""
    return b"CONNECT " + msgspec.json.encode(options) + b"\r\n" + PING


def publish(subject: str, payload: bytes, headers: Mapping[str, str] | None, reply: str) -> bytes:
    """Return a message as it is sent."""
    place = f"{subject} {reply}" if reply else subject
    head = encoded_headers(headers) if headers else b""
    if head:
        line = f"HPUB {place} {len(head)} {len(head) + len(payload)}\r\n".encode()
    else:
        line = f"PUB {place} {len(payload)}\r\n".encode()
    if len(line) > _LONGEST_COMMAND:
        raise ProtocolError(f"the subject is too long: {subject[:60]!r}…")
    return b"".join((line, head, payload, b"\r\n"))


def subscribe(subject: str, queue: str, number: int) -> bytes:
    """Return a subscription as it is sent."""
    return f"SUB {subject} {queue} {number}\r\n".encode() if queue else f"SUB {subject} {number}\r\n".encode()


def unsubscribe(number: int) -> bytes:
    """Return the end of a subscription as it is sent."""
    return f"UNSUB {number}\r\n".encode()


def check_subject(subject: str) -> None:
    """Refuse what would break the line: blanks, line breaks, nothing at all."""
    if not subject or " " in subject or not subject.isprintable():
        raise ProtocolError(f"not a subject: {subject[:60]!r}")
