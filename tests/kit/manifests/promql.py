"""What boards and alerts ask Prometheus for: their queries, and the metrics and labels in them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quintet.manifests.monitoring import ALERTS

ROOT = Path(__file__).parents[3]
BOARDS = tuple(sorted((ROOT / "config/grafana").glob("*.json")))
# What Prometheus adds to every series, or makes by itself.
OF_PROMETHEUS = {"namespace", "pod", "job", "instance", "service"}
UP = "up"
_WORDS = {
    "sum", "max", "min", "by", "unless", "and", "or", "rate", "increase", "absent", "time", "topk", "le",
    "histogram_quantile", "min_over_time", "label_values",
}  # fmt: skip
_VARIABLE = re.compile(r"\$(__)?[a-z_]+")


def of_board(path: Path) -> Iterator[tuple[str, str]]:
    """Every query of a board with the title of its panel."""
    board: dict[str, Any] = json.loads(path.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield f"{path.stem}: {panel['title']} {target['refId']}", target["expr"]


def variables(path: Path) -> Iterator[tuple[str, str]]:
    """Every query that fills a choice of a board."""
    for variable in json.loads(path.read_text())["templating"]["list"]:
        if variable["type"] == "query":
            yield f"{path.stem}: variable {variable['name']}", variable["query"]


def of_alerts() -> Iterator[tuple[str, str]]:
    """Every alert's expression with its name."""
    for alert in ALERTS:
        yield alert.name, alert.expression


def queries() -> list[tuple[str, str]]:
    """All of them."""
    boards = [each for path in BOARDS for each in (*of_board(path), *variables(path))]
    return [*boards, *of_alerts()]


def metrics(query: str) -> set[str]:
    """The names of series that a query asks for."""
    bare = re.sub(r"\b(?:by|without|on|ignoring) \([^)]*\)", " ", query)
    bare = re.sub(r"label_values\((.*), \w+\)", r"\1", bare)
    bare = _VARIABLE.sub(" ", re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", bare))
    return {word for word in re.findall(r"[a-z_][a-z_0-9]*", bare) if word not in _WORDS}


def labels(query: str) -> set[str]:
    """The labels that a query selects, groups or joins by."""
    groups = re.findall(r"\b(?:by|on) \(([^)]*)\)", query)
    found = {word for group in groups for word in re.split(r",\s*", group)}
    for selector in re.findall(r"\{([^}]*)\}", query):
        found.update(re.findall(r"(\w+)(?:=~|!~|!=|=)", selector))
    return found


def plain(query: str) -> str:
    """A query of a board as Prometheus reads it: with something in the place of each variable."""
    return _VARIABLE.sub("x", query.replace("$__rate_interval", "5m"))
