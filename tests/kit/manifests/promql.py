"""The Prometheus queries of dashboards and alerts, and the metrics and labels in them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quintet.manifests.monitoring import ALERTS

ROOT = Path(__file__).parents[3]
DASHBOARDS = tuple(sorted((ROOT / "config/grafana").glob("*.json")))
# What Prometheus adds to every series, or makes by itself.
OF_PROMETHEUS = {"namespace", "pod", "job", "instance", "service"}
UP = "up"
_WORDS = {
    "sum", "max", "min", "by", "unless", "and", "or", "rate", "increase", "absent", "time", "topk", "le",
    "histogram_quantile", "min_over_time", "label_values",
}  # fmt: skip
_VARIABLE = re.compile(r"\$(__)?[a-z_]+")


def dashboard_queries(path: Path) -> Iterator[tuple[str, str]]:
    """Yield every query of a dashboard with the title of its panel."""
    board: dict[str, Any] = json.loads(path.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield f"{path.stem}: {panel['title']} {target['refId']}", target["expr"]


def dashboard_variables(path: Path) -> Iterator[tuple[str, str]]:
    """Yield every query that fills a variable of a dashboard."""
    for variable in json.loads(path.read_text())["templating"]["list"]:
        if variable["type"] == "query":
            yield f"{path.stem}: variable {variable['name']}", variable["query"]


def alert_queries() -> Iterator[tuple[str, str]]:
    """Yield every alert's name and expression."""
    for alert in ALERTS:
        yield alert.name, alert.expression


def all_queries() -> list[tuple[str, str]]:
    """Return the queries of all dashboards and alerts."""
    boards = [each for path in DASHBOARDS for each in (*dashboard_queries(path), *dashboard_variables(path))]
    return [*boards, *alert_queries()]


def metrics(query: str) -> set[str]:
    """Return the metric names in a query."""
    bare = re.sub(r"\b(?:by|without|on|ignoring) \([^)]*\)", " ", query)
    bare = re.sub(r"label_values\((.*), \w+\)", r"\1", bare)
    bare = _VARIABLE.sub(" ", re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", bare))
    return {word for word in re.findall(r"[a-z_][a-z_0-9]*", bare) if word not in _WORDS}


def labels(query: str) -> set[str]:
    """Return the labels that a query selects, groups or joins by."""
    groups = re.findall(r"\b(?:by|on) \(([^)]*)\)", query)
    found = {word for group in groups for word in re.split(r",\s*", group)}
    for selector in re.findall(r"\{([^}]*)\}", query):
        found.update(re.findall(r"(\w+)(?:=~|!~|!=|=)", selector))
    return found


def substitute_variables(query: str) -> str:
    """Replace the dashboard variables in a query so that Prometheus can parse it."""
    return _VARIABLE.sub("x", query.replace("$__rate_interval", "5m"))
