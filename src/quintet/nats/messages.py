"""A received message, and the encoding of headers."""

from collections.abc import Mapping

import msgspec

from quintet.nats.errors import ProtocolError


class Message(msgspec.Struct, gc=False):
    """A message. Its headers are parsed on access."""

    subject: str
    payload: bytes
    reply: str = ""
    head: bytes = b""
    """The encoded headers; empty if there are none."""
    subscription: int = 0

    @property
    def headers(self) -> Mapping[str, str] | None:
        """The headers; None if there are none."""
        return parse_headers(self.head)

    @property
    def status(self) -> int:
        """The status code of a message from the server itself (503: no responders); 0 for other messages."""
        # The first line is `NATS/1.0 503`. The names of headers on later lines may begin with digits, too.
        number = self.head[9:12] if self.head[8:9] == b" " else b""
        return int(number) if len(number) == 3 and number.isdigit() else 0

    @property
    def status_text(self) -> str:
        """The text after the status code."""
        return self.head.partition(b"\r\n")[0][12:].strip().decode("utf-8", "replace")


def parse_headers(head: bytes) -> Mapping[str, str] | None:
    """Return decoded headers; None if there are none. The first value of a repeated header wins."""
    if not head:
        return None
    found: dict[str, str] = {}
    for line in head.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            found.setdefault(name.decode("utf-8", "replace"), value.strip().decode("utf-8", "replace"))
    return found


def encode_headers(headers: Mapping[str, str]) -> bytes:
    """Return encoded headers; raise `ProtocolError` if a name or value would change their meaning."""
    lines = "\r\n".join(map(": ".join, headers.items()))
    breaks = len(headers) - 1
    if lines.count("\n") != breaks or lines.count("\r") != breaks:
        raise ProtocolError("a header must not contain a line break")
    if "" in headers or ":" in "".join(headers):
        raise ProtocolError("a header name must not be empty or contain ':'")
    try:
        return f"NATS/1.0\r\n{lines}\r\n\r\n".encode()
    except UnicodeEncodeError as error:
        raise ProtocolError("a header is not valid text") from error
