"""The runs of a Checkup and how its numbers have changed over them. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quintet.inspect.tables import format_age, parse_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from quintet.apis.checkup import Checkup, CheckupStatus, Run
    from quintet.apis.meta import JsonObject

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "_.-=+*#@"
DURATION = "seconds"
"""The name of the series that every run has: from its start to its completion."""
_NONE = "-"


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run: its verdict and the numbers among its results."""

    run: int
    verdict: str
    started: str | None
    numbers: dict[str, float]
    omitted: int = 0
    """How many of its results the history does not keep."""


@dataclass(frozen=True, slots=True)
class Trend:
    """The finished runs of a checkup, the oldest first, and the names of their numbers."""

    runs: Sequence[FinishedRun]
    names: Sequence[str]

    def series(self, name: str) -> list[float | None]:
        """Return a number of each run; None for a run without it."""
        return [run.numbers.get(name) for run in self.runs]


def trend_of(checkup: Checkup, names: Sequence[str] = ()) -> Trend:
    """Return the trend of a checkup; without `names`, of all its numbers."""
    status = checkup.status
    runs = [_summarize_run(run, run.results) for run in reversed(status.history)]
    # After an attempt that is followed by another one, the history has the run of the status already.
    if status.verdict is not None and status.run > 0 and all(run.run != status.run for run in runs):
        runs.append(_summarize_run(status, status.result_map))
    found = {name: None for run in runs for name in run.numbers}
    return Trend(runs, tuple(names) or (DURATION, *sorted(found.keys() - {DURATION})))


def _summarize_run(run: Run | CheckupStatus, results: dict[str, str]) -> FinishedRun:
    numbers = {name: number for name, text in results.items() if (number := as_number(text)) is not None}
    start, end = parse_time(run.start_time), parse_time(run.completion_time)
    if start is not None and end is not None:
        numbers.setdefault(DURATION, (end - start).total_seconds())
    omitted = getattr(run, "results_omitted", 0)
    return FinishedRun(run.run, str(run.verdict), run.start_time, numbers, omitted)


def as_number(text: str) -> float | None:
    """Return a result as a number; None if it is not a finite one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None


def sparkline(series: Sequence[float | None], blocks: str = BLOCKS) -> str:
    """Return one block per value, from the lowest for the least to the highest; a space for None."""
    values = [value for value in series if value is not None]
    least, most = min(values, default=0.0), max(values, default=0.0)
    scale = 1.0 if math.isfinite(most - least) else 0.5
    span = most * scale - least * scale

    def block(value: float) -> str:
        share = (value * scale - least * scale) / span if span else 0.0
        return blocks[min(int(share * len(blocks)), len(blocks) - 1)]

    return "".join(" " if value is None else block(value) for value in series)


def trend_rows(trend: Trend, now: datetime) -> list[list[str]]:
    """Return the table of the runs."""
    rows = [["RUN", "AGE", "VERDICT", *(name.upper() for name in trend.names)]]
    for run in trend.runs:
        numbers = [_shown(run.numbers.get(name)) for name in trend.names]
        rows.append([str(run.run), format_age(run.started, now), run.verdict, *numbers])
    return rows


def sparkline_rows(trend: Trend, blocks: str = BLOCKS) -> list[list[str]]:
    """Return the table of the series: name, sparkline, and the least, the greatest and the last number."""
    rows = [["RESULT", "TREND", "MIN", "MAX", "LAST"]]
    for name in trend.names:
        series = trend.series(name)
        values = [value for value in series if value is not None]
        ends = (min(values, default=None), max(values, default=None), series[-1] if series else None)
        rows.append([name, sparkline(series, blocks), *map(_shown, ends)])
    return rows


def trend_document(trend: Trend) -> JsonObject:
    """Return the trend for programs."""
    runs = [
        {"run": run.run, "verdict": run.verdict, "startTime": run.started, "numbers": run.numbers}
        for run in trend.runs
    ]
    return {"runs": runs, "series": {name: trend.series(name) for name in trend.names}}


def _shown(number: float | None) -> str:
    return _NONE if number is None else f"{number:.6g}"
