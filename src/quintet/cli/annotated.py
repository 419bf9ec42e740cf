"""An object → YAML with what each field means beside it, from the schema of its kind. Pure.

Called by `new`. A field that the object has is written out; with `full`, one that it does not have
stands there as a comment, with its default. Parts that Kubernetes shapes have no descriptions in
our definitions, and nothing is said about what they leave out.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from quintet.apis.meta import JsonObject

WIDTH = 100
_STEP = "  "
Remarks = Callable[[str], str]
"""What to say about a key of which the schema knows nothing."""


class _Dumper(yaml.SafeDumper):
    """Text of several lines stays so, items are indented, and what is there twice is written twice."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dumped(value: Any) -> list[str]:
    """Plain YAML, line by line."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return text.splitlines()


def annotated(
    value: JsonObject, schema: JsonObject, *, full: bool = False, remarks: Remarks = lambda key: ""
) -> list[str]:
    """The fields of one object, each with its description, as the lines of a YAML mapping."""
    lines: list[str] = []
    required, known = schema.get("required", ()), schema.get("properties", {})
    for name, each in value.items():
        child = known.get(name, {})
        lines += _comment(child, required=name in required) or remark(remarks(name))
        lines += _field(name, each, child, full=full, remarks=remarks)
    if full:
        for name, child in known.items():
            if name not in value and child.get("description"):
                lines += _comment(child, required=name in required)
                lines += [f"# {line}" for line in _could_be(name, child)]
    return lines


def left_out(value: JsonObject, schema: JsonObject) -> list[str]:
    """The fields that could be there and are not."""
    return [name for name in schema.get("properties", {}) if name not in value]


def _field(name: str, value: Any, schema: JsonObject, *, full: bool, remarks: Remarks) -> list[str]:
    if isinstance(value, dict) and value:
        inner = annotated(value, schema, full=full, remarks=remarks)
        return [f"{name}:", *_indented(inner)]
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        lines = [f"{name}:"]
        for number, each in enumerate(value):
            # What else could be there is said once.
            item = _item(each, schema.get("items", {}), full=full and number == 0, remarks=remarks)
            lines += _indented(item)
        return lines
    return dumped({name: value})


def _item(value: Any, schema: JsonObject, *, full: bool, remarks: Remarks) -> list[str]:
    if not isinstance(value, dict) or not value:
        return dumped([value])
    return _dashed(annotated(value, schema, full=full, remarks=remarks))


def _could_be(name: str, schema: JsonObject) -> list[str]:
    """A field that is not there, as it could be written; what is in it with it."""
    items = schema.get("items")
    listed = isinstance(items, dict) and bool(items.get("properties"))
    inner: JsonObject = items if listed and isinstance(items, dict) else schema
    described = {key: each for key, each in inner.get("properties", {}).items() if each.get("description")}
    if not described:
        return [f"{name}: {_usual(schema)}"]
    lines: list[str] = []
    for key, each in described.items():
        lines += [*_comment(each, required=key in inner.get("required", ())), *_could_be(key, each)]
    return [f"{name}:", *_indented(_dashed(lines) if listed else lines)]


def _dashed(lines: list[str]) -> list[str]:
    """The lines of a mapping as one entry of a list: comments that come first stand above its dash."""
    first = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return [*lines[:first], f"- {lines[first]}", *_indented(lines[first + 1 :])]


def _usual(schema: JsonObject) -> str:
    """A value to begin with: the default, the first that is allowed, or an empty one of that sort."""
    if "default" in schema:
        return json.dumps(schema["default"])
    if schema.get("enum"):
        return json.dumps(schema["enum"][0])
    empty = {"object": "{}", "array": "[]", "string": '""', "boolean": "false"}
    return empty.get(schema.get("type", ""), json.dumps(schema.get("minimum", 1)))


def _comment(schema: JsonObject, *, required: bool) -> list[str]:
    said = [schema["description"]] if schema.get("description") else []
    if not said:
        return []
    if required:
        said.append("Required.")
    if schema.get("enum"):
        said.append(f"One of {', '.join(map(str, schema['enum']))}.")
    if schema.get("default") not in (None, {}, []):
        said.append(f"Default: {schema['default']}.")
    return remark(" ".join(said))


def remark(text: str) -> list[str]:
    """A comment, in as many lines as it takes."""
    return [f"# {line}" for line in textwrap.wrap(text, WIDTH - 10, break_on_hyphens=False)]


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"{_STEP}{line}" if line else line for line in lines]
