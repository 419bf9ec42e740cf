"""What one check found, and what all of them come to. Pure; made by the judges beside it."""

from collections.abc import Iterable
from dataclasses import dataclass

OK, WARNING, FAILED, UNKNOWN = "ok", "warning", "failed", "unknown"
"""Unknown: it could not be looked at, which is neither good nor bad news."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    group: str
    check: str
    status: str
    message: str
    next: str = ""


def worst(findings: Iterable[Finding]) -> str:
    """The verdict over all: what was not looked at counts for nothing."""
    found = {each.status for each in findings}
    return next((status for status in (FAILED, WARNING) if status in found), OK)


def shortened(names: Iterable[str], most: int = 4) -> str:
    """A list for people: the first few, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
