"""Text for a screen: columns under each other, ages, and sentences that fit in a line. Pure.

Called by the commands that show objects.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))


def aligned(rows: Sequence[Sequence[str]], *, width: int | None = None) -> list[str]:
    """The rows as lines, cells under each other; cut to a width if there is one."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:{size}}" for cell, size in zip(row, widths, strict=True)) for row in rows]
    return [cut(line.rstrip(), width) for line in lines]


def cut(line: str, width: int | None) -> str:
    """A line that is no wider than a screen, if there is one."""
    return line if width is None or len(line) <= width else f"{line[: max(width - 1, 0)]}…"


def one_line(text: str) -> str:
    """A text without line breaks."""
    return " ".join(text.split())


def moment(text: str | None) -> datetime | None:
    """A time as Kubernetes writes it."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def age(since: str | None, now: datetime) -> str:
    """How long ago that was, as short as `kubectl` says it."""
    begun = moment(since)
    if begun is None:
        return "-"
    seconds = max(int((now - begun) / timedelta(seconds=1)), 0)
    for unit, length in _UNITS:
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
