"""What the demo says at its end: a table, and what to look at next. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_PODS = "No pod runs, because a node needs root on Linux: run `quintet demo` there as root."
HEADER = ("KIND", "OBJECT", "WHAT WAS SEEN", "SECONDS")


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one object, and how long that took."""

    kind: str
    name: str
    seen: str
    seconds: float
    next_step: str = ""
    """What to do about it, if it did not work."""

    @property
    def failed(self) -> bool:
        """Whether it did not work."""
        return bool(self.next_step)


def table(rows: Sequence[Row], total: float) -> str:
    """One line for each object, then the time of everything."""
    cells = [HEADER, *((row.kind, row.name, _seen(row), f"{row.seconds:.0f}") for row in rows)]
    cells.append(("", "", "everything, from the first line on", f"{total:.0f}"))
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADER) - 1)]
    return "\n".join(
        "   ".join(
            [*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1].rjust(7)]
        )
        for line in cells
    )


def _seen(row: Row) -> str:
    return f"FAILED: {row.seen}" if row.failed else row.seen


def block(title: str, text: str) -> str:
    """A heading and what belongs to it."""
    return "\n".join(("", title, *(f"  {line}".rstrip() for line in text.splitlines())))


def looks(kubectl: str, hints: Sequence[tuple[str, str]], stop: str) -> str:
    """What to look at and what to try, and how to end it; the hints begin with the verb of kubectl."""
    first = ("in this shell", f"alias k='{kubectl}'")
    return _listed([first, *((what, f"k {how}") for what, how in hints), ("stop it", stop)])


def stopped(command: str) -> str:
    """What to do when nothing is left to look at."""
    lines = (
        ("look around", f"{command} demo --keep"),
        ("what was applied", "examples/, each with a README of what else to try"),
        ("every field", "docs/index.md leads to the page of each kind"),
    )
    return f"Everything that the demo started is stopped again.\n{_listed(lines)}"


def next_step(step: str, kubectl: str, *, kept: bool) -> str:
    """The next step of an error, when what it speaks of may be gone by the time it is read."""
    here = step.replace("kubectl ", f"{kubectl} ", 1)
    return here if kept else f"run it again with --keep, which leaves everything there, then: {here}"


def _listed(lines: Sequence[tuple[str, str]]) -> str:
    width = max(len(what) for what, _ in lines)
    return "\n".join(f"{what:{width}}   {how}" for what, how in lines)
