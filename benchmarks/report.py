"""Prints tables and writes build/bench.json, with details in build/bench-details.json.

bench.json has only the keys that are compared between runs; a part keeps the keys of other parts.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.contenders import QUINTET
from benchmarks.parts.traffic import Traffic
from benchmarks.rounds import Series

KEYS = (
    "ceiling_ratio",
    "vs_controller_runtime",
    "vs_kopf",
    "cpu_ms_per_reconcile",
    "rss_mb",
    "rss_empty_mb",
    "writes_per_create",
    "gets_per_create",
    "steady_requests",
    "restart_writes",
    "latency_ms",
    "webhook_ms",
    "scale",
)
FIGURES = ROOT / "build/bench.json"
DETAILS = ROOT / "build/bench-details.json"


def say(text: str = "") -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def keep(figures: dict[str, Any], path: Path = FIGURES) -> None:
    """Merge figures into bench.json."""
    unknown = figures.keys() - set(KEYS)
    if unknown:
        raise ValueError(f"not keys of bench.json: {sorted(unknown)}")
    stored = _read(path)
    merged = {key: figures.get(key, stored.get(key)) for key in KEYS}
    _write(path, merged)


def keep_details(part: str, details: Any, path: Path = DETAILS) -> None:
    """Merge the details of a part into bench-details.json."""
    _write(path, {**_read(path), part: details})


def series_details(series: Series) -> dict[str, Any]:
    """Return every run of a series as data."""
    runs = {name: [asdict(run) for run in found] for name, found in series.runs.items()}
    return {"loads": series.loads, "runs": runs}


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a text table: first column left-aligned, figures right-aligned."""
    lines = [list(headings), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]

    def shown(line: Sequence[str]) -> str:
        first, *others = (
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        return "  ".join([first, *others]).rstrip()

    return "\n".join([shown(lines[0]), "  ".join("-" * width for width in widths), *map(shown, lines[1:])])


def series_table(series: Series) -> str:
    """Return the table of contenders, fastest first."""
    rows = []
    for name in sorted(series.runs, key=series.median):
        ratio = f"{series.ratio(name):.2f}" if QUINTET in series.runs else "-"
        cpu = [f"{series.cpu(name, part):.2f}" for part in ("operator", "apiserver", "etcd")]
        seconds = series.seconds(name)
        spread = f"{min(seconds):.2f}-{max(seconds):.2f}"
        ends = [f"{series.rss(name):.0f}", f"{series.others(name):.0%}"]
        rows.append([name, f"{series.median(name):.2f}", spread, ratio, *cpu, *ends])
    headings = ["contender", "s", "range", "÷ quintet", "CPU ms/object", "apiserver", "etcd", "peak MB"]
    return table([*headings, "others"], rows)


def traffic_table(found: Sequence[Traffic]) -> str:
    """Return the table of requests per contender."""
    rows = [
        [
            each.contender,
            f"{each.writes_per_create:.2f}",
            f"{each.gets_per_create:.2f}",
            f"{each.steady_requests} in {each.steady_seconds:g} s",
            str(each.restart_writes),
        ]
        for each in found
    ]
    headings = ["contender", "writes/object", "GETs/object", "requests when idle", "writes after restart"]
    return table(headings, rows)


def _read(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")
