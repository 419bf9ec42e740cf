"""The runs of a Checkup, and how its numeric results change. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from quintet.apis.checkup import Verdict
from quintet.inspect.panels.panel import Chart, Panel, Point
from quintet.inspect.states import ChildState
from quintet.inspect.status import Rating
from quintet.inspect.tables import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from quintet.apis.meta import JsonObject

MAX_RUNS = 50
MAX_CHARTS = 12
_RATINGS: dict[str, Rating] = {
    Verdict.PASSED: Rating.GOOD,
    Verdict.FLAKY: Rating.OPEN,
    Verdict.CANCELLED: Rating.NEUTRAL,
}


def checkup_panels(body: JsonObject) -> tuple[Panel, ...]:
    """Return the finished runs, the last one first, with charts of their durations and numeric results."""
    runs = _runs(body.get("status") or {})
    if not runs:
        return ()
    shown = runs[:MAX_RUNS]
    charts = (_duration_chart(shown), *_result_charts(shown))
    more = f"{len(runs) - MAX_RUNS} earlier runs are in status.history" if len(runs) > MAX_RUNS else ""
    columns = ("Run", "Verdict", "Reason", "Started", "Duration", "Message")
    return (Panel("Runs", columns, tuple(map(_row, shown)), tuple(filter(None, charts)), more),)


def _runs(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    current = [{**status, "results": status.get("resultMap") or {}}] if status.get("verdict") else []
    return [*current, *(status.get("history") or ())]


def _row(run: Mapping[str, Any]) -> tuple[str | ChildState, ...]:
    seconds = _duration(run)
    return (
        str(run.get("run") or ""),
        ChildState(str(run.get("verdict")), rate_verdict(run)),
        str(run.get("reason") or ""),
        str(run.get("startTime") or ""),
        "" if seconds is None else format_seconds(seconds),
        str(run.get("message") or ""),
    )


def rate_verdict(run: Mapping[str, Any]) -> Rating:
    """Return whether a run has passed; one that passed only after a retry counts as open."""
    return _RATINGS.get(str(run.get("verdict")), Rating.BAD)


def _duration(run: Mapping[str, Any]) -> float | None:
    begun, ended = parse_time(run.get("startTime")), parse_time(run.get("completionTime"))
    return max((ended - begun).total_seconds(), 0.0) if begun and ended else None


def format_seconds(seconds: float) -> str:
    """Return a duration such as 45s or 2m5s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _duration_chart(runs: Sequence[Mapping[str, Any]]) -> Chart | None:
    timed = [(run, seconds) for run in reversed(runs) if (seconds := _duration(run)) is not None]
    points = [
        Point(
            f"run {run.get('run')}: {run.get('verdict')}",
            seconds,
            format_seconds(seconds),
            rate_verdict(run),
        )
        for run, seconds in timed
    ]
    return Chart("Duration", tuple(points)) if len(points) > 1 else None


def _result_charts(runs: Sequence[Mapping[str, Any]]) -> Iterable[Chart]:
    """Return a chart per result that is a number in at least two runs."""
    names = dict.fromkeys(name for run in runs for name in sorted(run.get("results") or {}))
    charts = []
    for name in names:
        points = []
        for run in reversed(runs):
            text = str((run.get("results") or {}).get(name, ""))
            if (value := _number(text)) is not None:
                points.append(Point(f"run {run.get('run')}", value, text, rate_verdict(run)))
        if len(points) > 1:
            charts.append(Chart(name, tuple(points)))
    return charts[:MAX_CHARTS]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
