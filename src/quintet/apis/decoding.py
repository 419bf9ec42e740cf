"""The exceptions of decoding foreign JSON, and how to read JSON that is nested too deeply."""

import re
from typing import Final

import msgspec

DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises: not the expected JSON, a string that is not UTF-8, JSON nested too deeply."""

CUT: Final = b'"quintet.dev/nested-too-deeply"'
"""The value that `cut_nesting` puts in place of what it removes."""

# A string without an end matches too: a search from each of its quotes would take quadratic time.
_BRACKETS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|.?\Z)|[{}\[\]]', re.DOTALL)


def cut_nesting(text: bytes, depth: int = 100) -> bytes:
    """Return JSON without the values that are nested more than `depth` levels deep.

    The API server stores objects of up to 10,000 levels where a schema preserves unknown fields. The
    decoder raises RecursionError at fewer than 1,000. The identity of such an object can still be read.
    """
    kept: list[bytes] = []
    level = start = 0
    for match in _BRACKETS.finditer(text):
        bracket = match.group()
        if bracket in b"{[":
            level += 1
            if level == depth + 1:
                kept += (text[start : match.start()], CUT)
        elif bracket in b"}]":
            level -= 1
            if level == depth:
                start = match.end()
    kept.append(text[start:])
    return b"".join(kept)
