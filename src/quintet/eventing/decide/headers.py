"""CloudEvents attributes as headers: names, and the percent-encoding of the HTTP protocol binding. Pure.

HTTP requests, messages in the stream and deliveries use the same encoding, so headers are passed on
unchanged.
"""

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

PREFIX: Final = "ce-"
ID: Final = "ce-id"
SOURCE: Final = "ce-source"
TYPE: Final = "ce-type"
SPEC_VERSION: Final = "ce-specversion"
CONTENT_TYPE: Final = "content-type"
REQUIRED: Final = (ID, SOURCE, TYPE, SPEC_VERSION)
ORIGINAL_TYPE: Final = "ce-originaltype"
ORIGINAL_SOURCE: Final = "ce-originalsource"
"""Type and source as published, where a backend stores cleaned ones."""
TEST: Final = f"{PREFIX}quintettest"
"""The value `true` asks dispatchers to report the delivery of an event: `quintet publish` waits for it."""

TRACING: Final = ("traceparent", "tracestate", "baggage", "b3")
"""Tracing headers (W3C Trace Context, W3C Baggage, single-header B3) that are passed on with an event."""
B3_PREFIX: Final = "x-b3-"
B3_MULTI: Final = tuple(
    f"{B3_PREFIX}{part}" for part in ("traceid", "spanid", "parentspanid", "sampled", "flags")
)
"""Tracing headers of multi-header B3."""

is_plain: Final = re.compile(r"[!#$&-~]*").fullmatch
"""Matches a value that needs no encoding: printable ASCII without space, double quote and percent."""
_SAFE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
# The second form is a quote without an end. It matches too, because a search from each of its quotes would
# take quadratic time.
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"|".*', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]").search


class BadValueError(ValueError):
    """An invalid attribute value; the message says why."""


def encode_value(value: str) -> str:
    """Return the header value of an attribute."""
    if is_plain(value):
        return value
    if _CONTROL(value):
        raise BadValueError("MUST NOT contain control characters")
    return quote(value, safe=_SAFE)


def decode_value(header: str) -> str:
    """Return the attribute of a header value: unquoted, then percent-decoded."""
    if is_plain(header):
        return header
    if not header.isascii():
        raise BadValueError("MUST be percent-encoded if it is not ASCII")
    plain = _QUOTED.sub(_unquote, header) if '"' in header else header
    if "%" in plain:
        try:
            plain = unquote_to_bytes(plain).decode()
        except UnicodeDecodeError:
            raise BadValueError("MUST be UTF-8 after percent-decoding") from None
    if _CONTROL(plain):
        raise BadValueError("MUST NOT contain control characters")
    return plain


def _unquote(found: re.Match[str]) -> str:
    return found[0] if found[1] is None else _ESCAPED.sub(r"\1", found[1])
