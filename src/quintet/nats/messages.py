"""A message as it arrives. Made by `protocol`, read by everybody who subscribes."""

from collections.abc import Mapping

import msgspec

from quintet.nats.errors import ProtocolError


class Message(msgspec.Struct, gc=False):
    """What was published, where, and where an answer is expected; headers are read when asked for."""

    subject: str
    payload: bytes
    reply: str = ""
    head: bytes = b""
    """The headers as they came; empty if there are none."""
    subscription: int = 0

    @property
    def headers(self) -> Mapping[str, str] | None:
        """The headers; None if there are none. Of several with one name the first counts."""
        if not self.head:
            return None
        found: dict[str, str] = {}
        for line in self.head.split(b"\r\n")[1:]:
            name, colon, value = line.partition(b":")
            if colon:
                found.setdefault(name.decode("utf-8", "replace"), value.strip().decode("utf-8", "replace"))
        return found

    @property
    def status(self) -> int:
        """What the server itself says by this message (503: nobody listens); 0 if it is an ordinary one."""
        # Behind the version and a space, on the same line: NATS/1.0 503. A header may begin with digits, too.
        number = self.head[9:12] if self.head[8:9] == b" " else b""
        return int(number) if len(number) == 3 and number.isdigit() else 0

    @property
    def status_text(self) -> str:
        """The words behind the status."""
        return self.head.partition(b"\r\n")[0][12:].strip().decode("utf-8", "replace")


def encoded_headers(headers: Mapping[str, str]) -> bytes:
    """Return headers as they are sent; a line break in one of them is refused."""
    lines = "\r\n".join(map(": ".join, headers.items()))
    breaks = len(headers) - 1
    if lines.count("\n") != breaks or lines.count("\r") != breaks:
        raise ProtocolError("a header must not contain a line break")
    if "" in headers or ":" in "".join(headers):
        raise ProtocolError("the name of a header must neither be empty nor contain ':'")
    try:
        return f"NATS/1.0\r\n{lines}\r\n\r\n".encode()
    except UnicodeEncodeError as error:
        raise ProtocolError("a header contains what is no text") from error
