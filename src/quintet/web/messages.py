"""What an HTTP server is asked and answers. Made and sent by `server`."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

import httptools

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"

NAMES: Final[dict[bytes, str]] = {}
"""Names of headers as they were sent, and in lower case. Clients send the same few again and again."""
_MOST_NAMES: Final = 256

_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
# Answers that never have a body, and must not announce the length of one.
_BARE: Final = frozenset({204, 304})


@dataclass(slots=True)
class Request:
    """A request, whole. The names of headers are in lower case; of several with one name all values."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""
    keep_alive: bool = True
    truncated: bool = False
    """Whether the body is only the beginning of one that was too large (`Limits.excerpt_bytes`)."""


@dataclass(slots=True)
class Response:
    """An answer. The header `Connection: close` ends the connection after it."""

    status: int = 200
    body: bytes = b""
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


class Later:
    """An answer that comes later: like a future, without a turn of the event loop in between."""

    __slots__ = ("_response", "_tell")

    def __init__(self) -> None:
        self._response: Response | None = None
        self._tell: Callable[[Response], None] | None = None

    def give(self, response: Response) -> None:
        """Answer. Only the first answer counts."""
        if self._response is None:
            self._response = response
            if self._tell is not None:
                self._tell(response)

    def tell(self, callback: Callable[[Response], None]) -> None:
        """Call back with the answer, at once if it is there."""
        self._tell = callback
        if self._response is not None:
            callback(self._response)


def encoded(response: Response, *, bodiless: bool, close: bool) -> bytes:
    """Return an answer as it is sent; `bodiless`: to a HEAD request."""
    status = response.status
    if status in _BARE and not response.headers:
        return _bare(status, close)
    lines = [_LINES.get(status) or f"HTTP/1.1 {status} Unknown\r\n"]
    for name, value in response.headers.items():
        if "\r" in value or "\n" in value:
            raise ValueError(f"the header {name} of an answer contains a line break")
        if name != "Connection":
            lines.append(f"{name}: {value}\r\n")
    if status not in _BARE:
        if response.content_type:
            lines.append(f"Content-Type: {response.content_type}\r\n")
        lines.append(f"Content-Length: {len(response.body)}\r\n")
    lines.append("Connection: close\r\n\r\n" if close else "\r\n")
    head = "".join(lines).encode("latin-1")
    return head if bodiless or status in _BARE else head + response.body


@functools.cache
def _bare(status: int, close: bool) -> bytes:
    """An answer of nothing but its status: all of them are alike."""
    return (_LINES[status] + ("Connection: close\r\n\r\n" if close else "\r\n")).encode()


# Clients ask for the same few targets again and again.
@functools.lru_cache(maxsize=256)
def split_target(url: bytes) -> tuple[str, str]:
    """Return path and query of the target of a request."""
    if not url.startswith(b"/") and url != b"*":
        parsed = httptools.parse_url(url)
        path, query = parsed.path or b"/", parsed.query or b""
    else:
        path, _, query = url.partition(b"?")
    text = path.decode("latin-1")
    return unquote(text) if "%" in text else text, query.decode("latin-1")


def name_of(name: bytes) -> str:
    """Return the name of a header in lower case, kept for the next time as long as they are few."""
    text = name.decode("latin-1").lower()
    if len(NAMES) < _MOST_NAMES and len(text) < 64:
        NAMES[name] = text
    return text
