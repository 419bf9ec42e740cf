"""The findings of checks, and their overall status. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

OK, WARNING, FAILED, UNKNOWN = "ok", "warning", "failed", "unknown"
"""Unknown: the check could not run; this does not count as a failure."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    group: str
    check: str
    status: str
    message: str
    next: str = ""


def overall_status(findings: Iterable[Finding]) -> str:
    """Return the worst status; unknown counts as ok."""
    found = {each.status for each in findings}
    return next((status for status in (FAILED, WARNING) if status in found), OK)
