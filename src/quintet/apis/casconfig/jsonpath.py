"""The part of JSONPath that finds one value: fields, quoted keys, indexes, and an item by one of its fields.

`.data.level`, `$.spec.ports[0].port`, `{.metadata.annotations['a.b/c']}`, `.metadata.labels.a\\.b`,
`.status.conditions[?(@.type=="Ready")].status`. Pure; used by `sources`.
"""

import re
from typing import Any, NamedTuple

from quintet.apis.casconfig.places import ABSENT

_STEP = re.compile(
    r"""
      \.(?P<field>(?:[^.\[\]{}'"\s\\]|\\.)+)
    | \[(?P<index>-?[0-9]{1,6})\]
    | \[(?P<quote>['"])(?P<key>(?:(?!(?P=quote)).)*)(?P=quote)\]
    | \[\?\(\s*@\.(?P<by>[\w.-]+)\s*==\s*(?P<mark>['"])(?P<equals>(?:(?!(?P=mark)).)*)(?P=mark)\s*\)\]
    """,
    re.VERBOSE,
)


class JsonPathError(ValueError):
    """A path that is not understood; says where."""


class Item(NamedTuple):
    """The item of a list that has a value in a field."""

    field: str
    value: str


Step = str | int | Item


def parse_path(text: str) -> tuple[Step, ...]:
    """The steps of a path. Raises `JsonPathError`."""
    path = text.strip()
    if path.startswith("{") and path.endswith("}"):
        path = path[1:-1].strip()
    path = path.removeprefix("$")
    if path and path[0] not in ".[":
        path = f".{path}"
    steps: list[Step] = []
    position = 0
    while position < len(path):
        found = _STEP.match(path, position)
        if found is None:
            raise JsonPathError(
                f"cannot be read from '{path[position:]}' on; known are .field, ['key'], [0] and "
                "[?(@.field=='value')]"
            )
        steps.append(_step(found))
        position = found.end()
    if not steps:
        raise JsonPathError("names no field")
    return tuple(steps)


def _step(found: re.Match[str]) -> Step:
    if (field := found["field"]) is not None:
        return re.sub(r"\\(.)", r"\1", field)
    if found["index"] is not None:
        return int(found["index"])
    return found["key"] if found["key"] is not None else Item(found["by"], found["equals"])


def value_at(obj: Any, steps: tuple[Step, ...]) -> Any:
    """What is there, or `ABSENT`."""
    for step in steps:
        obj = _next(obj, step)
        if obj is ABSENT:
            break
    return obj


def _next(node: Any, step: Step) -> Any:
    if isinstance(step, str):
        return node.get(step, ABSENT) if isinstance(node, dict) else ABSENT
    if not isinstance(node, list):
        return ABSENT
    if isinstance(step, int):
        return node[step] if -len(node) <= step < len(node) else ABSENT
    return next(
        (item for item in node if isinstance(item, dict) and _text(item.get(step.field)) == step.value),
        ABSENT,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
