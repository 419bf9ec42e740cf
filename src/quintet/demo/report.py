"""The final output of the demo: a table and hints. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_PODS = "No pods ran, because a node needs root on Linux: run `quintet demo` as root on Linux."
HEADER = ("KIND", "OBJECT", "RESULT", "SECONDS")


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one sample, and its duration."""

    kind: str
    name: str
    seen: str
    seconds: float
    next_step: str = ""
    """The next step after a failure."""

    @property
    def failed(self) -> bool:
        return bool(self.next_step)


def render_table(rows: Sequence[Row], total: float) -> str:
    """Return one line per object, and the total time."""
    cells = [HEADER, *((row.kind, row.name, _format_result(row), f"{row.seconds:.0f}") for row in rows)]
    cells.append(("", "", "total", f"{total:.0f}"))
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADER) - 1)]
    return "\n".join(
        "   ".join(
            [*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1].rjust(7)]
        )
        for line in cells
    )


def _format_result(row: Row) -> str:
    return f"FAILED: {row.seen}" if row.failed else row.seen


def render_block(title: str, text: str) -> str:
    """Return a title and an indented text."""
    return "\n".join(("", title, *(f"  {line}".rstrip() for line in text.splitlines())))


def render_hints(kubectl: str, hints: Sequence[tuple[str, str]], stop: str) -> str:
    """Return commands to try and the command to stop the demo; hints start with a kubectl verb."""
    first = ("in this shell", f"alias k='{kubectl}'")
    return _align([first, *((what, f"k {how}") for what, how in hints), ("stop it", stop)])


def render_stopped(command: str) -> str:
    """Return what to do next after the demo has cleaned up."""
    lines = (
        ("keep it running", f"{command} demo --keep"),
        ("applied manifests", "examples/, each with a README"),
        ("documentation", "docs/index.md"),
    )
    return f"The demo has stopped everything that it started.\n{_align(lines)}"


def next_step(step: str, kubectl: str, *, kept: bool) -> str:
    """Return the next step of an error; without `kept`, the objects that it names are deleted."""
    here = step.replace("kubectl ", f"{kubectl} ", 1)
    return here if kept else f"run the demo again with --keep, then: {here}"


def _align(lines: Sequence[tuple[str, str]]) -> str:
    width = max(len(what) for what, _ in lines)
    return "\n".join(f"{what:{width}}   {how}" for what, how in lines)
