"""Text for terminals: aligned columns, ages and single lines. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))


def align_columns(rows: Sequence[Sequence[str]], *, width: int | None = None) -> list[str]:
    """Return rows as lines with aligned columns, truncated to a width."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:{size}}" for cell, size in zip(row, widths, strict=True)) for row in rows]
    return [truncate(line.rstrip(), width) for line in lines]


def truncate(line: str, width: int | None) -> str:
    """Return the line, truncated to a width if there is one."""
    return line if width is None or len(line) <= width else f"{line[: max(width - 1, 0)]}…"


def single_line(text: str) -> str:
    """Return the text without line breaks and without control characters, which a terminal would obey."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def parse_time(text: str | None) -> datetime | None:
    """Return a timestamp of Kubernetes; None if it is empty or invalid."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def format_age(since: str | None, now: datetime) -> str:
    """Return the age in the format of `kubectl get`."""
    begun = parse_time(since)
    if begun is None:
        return "-"
    seconds = max(int((now - begun) / timedelta(seconds=1)), 0)
    for unit, length in _UNITS:
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
