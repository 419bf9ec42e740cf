"""Attributes of CloudEvents as headers: percent-encoding, in the way the HTTP binding wants it.

Pure. A header of an HTTP request, of a message in the stream and of a delivery has one form, so an
event that came in as headers goes out as the same headers.
"""

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

PREFIX: Final = "ce-"
is_plain: Final = re.compile(r"[!#$&-~]*").fullmatch
"""Whether a value is its own header: printable ASCII without space, double quote and percent."""
_SAFE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]").search


class BadValueError(ValueError):
    """A value that no attribute may have; says why."""


def encoded(value: str) -> str:
    """A value as a header has it."""
    if is_plain(value):
        return value
    if _CONTROL(value):
        raise BadValueError("MUST NOT hold control characters")
    return quote(value, safe=_SAFE)


def decoded(header: str) -> str:
    """The value that a header stands for: first double quotes, then percent signs are taken off."""
    if is_plain(header):
        return header
    if not header.isascii():
        raise BadValueError("MUST be percent-encoded where it is not ASCII")
    plain = _QUOTED.sub(lambda found: _ESCAPED.sub(r"\1", found[1]), header) if '"' in header else header
    if "%" in plain:
        try:
            plain = unquote_to_bytes(plain).decode()
        except UnicodeDecodeError:
            raise BadValueError("MUST be UTF-8 where it is percent-encoded") from None
    if _CONTROL(plain):
        raise BadValueError("MUST NOT hold control characters")
    return plain
