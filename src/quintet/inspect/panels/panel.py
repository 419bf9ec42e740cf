"""A table about an object, and a chart of values over time. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from quintet.inspect.states import ChildState
from quintet.inspect.status import Rating

Cell = str | ChildState


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a chart."""

    label: str
    value: float
    text: str
    """The value with its unit."""
    rating: Rating = Rating.NEUTRAL


@dataclass(frozen=True, slots=True)
class Chart:
    """Values in the order of time."""

    title: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """A table, whose last column is the longest; its charts show the same values."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    charts: tuple[Chart, ...] = ()
    remark: str = ""
    """What the table leaves out."""


def cell_text(cell: Cell) -> str:
    """Return a cell as text."""
    return cell.word if isinstance(cell, ChildState) else cell


def panel_rows(panel: Panel) -> list[tuple[str, ...]]:
    """Return a header and all rows as text, without the columns that are empty in every row."""
    rows = [tuple(map(cell_text, row)) for row in panel.rows]
    used = [number for number in range(len(panel.columns)) if any(row[number] for row in rows)]
    head = tuple(each.upper() for each in panel.columns)
    return [tuple(row[number] for number in used) for row in (head, *rows)]
