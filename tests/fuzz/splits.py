"""The same bytes in pieces: at once, byte by byte, and at positions that depend on the bytes."""

import random
import zlib
from collections.abc import Iterator

_MOST_SINGLE_BYTES = 120


def split(data: bytes) -> Iterator[list[bytes]]:
    """Yield the bytes in several ways; the same bytes always give the same pieces."""
    yield [data]
    if len(data) <= _MOST_SINGLE_BYTES:
        yield [data[position : position + 1] for position in range(len(data))]
    chosen = random.Random(zlib.crc32(data))
    for pieces in (2, 5):
        cuts = sorted(chosen.randrange(len(data) + 1) for _ in range(pieces - 1))
        yield [
            data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if start < end
        ]
