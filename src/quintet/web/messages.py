"""HTTP requests and responses of the server, and how a response is encoded."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

import httptools

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"

HEADER_NAMES: Final[dict[bytes, str]] = {}
"""Cache of header names: as received, and in lower case. Clients send the same few names in every request."""
_MAX_CACHED_NAMES: Final = 256
_MAX_CACHED_LENGTH: Final = 64

_STATUS_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
# Responses with these statuses have no body and must not have a Content-Length (RFC 9110).
_NO_BODY: Final = frozenset({204, 304})


@dataclass(slots=True)
class Request:
    """A complete request. Header names are in lower case; values of a repeated header are joined."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""
    keep_alive: bool = True
    truncated: bool = False
    """Whether the body was too large and only its beginning was kept (`ServerLimits.excerpt_bytes`)."""


@dataclass(slots=True)
class Response:
    """A response. The header `Connection: close` closes the connection after it."""

    status: int = 200
    body: bytes = b""
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


class DeferredResponse:
    """A response that is set later; like a future, but its callback runs without an event loop iteration."""

    __slots__ = ("_callback", "_response")

    def __init__(self) -> None:
        self._response: Response | None = None
        self._callback: Callable[[Response], None] | None = None

    def set(self, response: Response) -> None:
        """Set the response; a second call is ignored."""
        if self._response is None:
            self._response = response
            if self._callback is not None:
                self._callback(response)

    def on_set(self, callback: Callable[[Response], None]) -> None:
        """Call back with the response, immediately if it is set."""
        self._callback = callback
        if self._response is not None:
            callback(self._response)


def encode_response(response: Response, *, head_only: bool, close: bool) -> bytes:
    """Return the bytes of a response; `head_only` omits the body, for HEAD requests."""
    status = response.status
    if status in _NO_BODY and not response.headers:
        return _encode_bare(status, close)
    if status in _NO_BODY:
        return _encode_head(status, response.headers, "", close=close)
    entity = f"Content-Type: {response.content_type}\r\n" if response.content_type else ""
    entity += f"Content-Length: {len(response.body)}\r\n"
    head = _encode_head(status, response.headers, entity, close=close)
    return head if head_only else head + response.body


def encode_stream_head(content_type: str, headers: Mapping[str, str]) -> bytes:
    """Return the head of a response whose body ends with the connection."""
    return _encode_head(200, headers, f"Content-Type: {content_type}\r\n", close=True)


def _encode_head(status: int, headers: Mapping[str, str], entity: str, *, close: bool) -> bytes:
    lines = [_STATUS_LINES.get(status) or f"HTTP/1.1 {status} Unknown\r\n"]
    for name, value in headers.items():
        if "\r" in value or "\n" in value:
            raise ValueError(f"response header {name} contains a line break")
        if name != "Connection":
            lines.append(f"{name}: {value}\r\n")
    lines += (entity, "Connection: close\r\n\r\n" if close else "\r\n")
    return "".join(lines).encode("latin-1")


@functools.cache
def _encode_bare(status: int, close: bool) -> bytes:
    """Return a response that consists of its status line only."""
    return (_STATUS_LINES[status] + ("Connection: close\r\n\r\n" if close else "\r\n")).encode()


# Clients request the same few targets again and again.
@functools.lru_cache(maxsize=256)
def split_target(url: bytes) -> tuple[str, str]:
    """Return path and query of a request target."""
    if not url.startswith(b"/") and url != b"*":
        parsed = httptools.parse_url(url)
        path, query = parsed.path or b"/", parsed.query or b""
    else:
        path, _, query = url.partition(b"?")
    text = path.decode("latin-1")
    return unquote(text) if "%" in text else text, query.decode("latin-1")


def lower_header_name(name: bytes) -> str:
    """Return a header name in lower case, and cache it while the cache is not full."""
    text = name.decode("latin-1").lower()
    if len(HEADER_NAMES) < _MAX_CACHED_NAMES and len(text) < _MAX_CACHED_LENGTH:
        HEADER_NAMES[name] = text
    return text
