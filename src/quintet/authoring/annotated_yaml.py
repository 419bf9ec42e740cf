"""Writes an object as YAML with the description of each field as a comment, from the schema. Pure.

Fields of the object are written out; with `full`, other fields follow as comments with their defaults. Types
of Kubernetes have no descriptions in our CRDs, so their other fields are omitted.
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
"""Returns the description of a key that is not in the schema."""


class _Dumper(yaml.SafeDumper):
    """Writes multi-line text as a block, indents list items and uses no aliases."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump_yaml(value: Any) -> list[str]:
    """Return a value as lines of YAML."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return text.splitlines()


def annotate(
    value: JsonObject, schema: JsonObject, *, full: bool = False, remarks: Remarks = lambda key: ""
) -> list[str]:
    """Return the lines of a YAML mapping, with the description of each field as a comment."""
    lines: list[str] = []
    required, known = schema.get("required", ()), schema.get("properties", {})
    for name, each in value.items():
        child = known.get(name, {})
        lines += _description(child, required=name in required) or comment_lines(remarks(name))
        lines += _field(name, each, child, full=full, remarks=remarks)
    if full:
        for name, child in known.items():
            if name not in value and child.get("description"):
                lines += _description(child, required=name in required)
                lines += [f"# {line}" for line in _commented_field(name, child)]
    return lines


def missing_fields(value: JsonObject, schema: JsonObject) -> list[str]:
    """Return the fields of the schema that the object does not have."""
    return [name for name in schema.get("properties", {}) if name not in value]


def _field(name: str, value: Any, schema: JsonObject, *, full: bool, remarks: Remarks) -> list[str]:
    if isinstance(value, dict) and value:
        inner = annotate(value, schema, full=full, remarks=remarks)
        return [f"{name}:", *_indent(inner)]
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        lines = [f"{name}:"]
        for number, each in enumerate(value):
            # Optional fields are shown in the first item only.
            item = _item(each, schema.get("items", {}), full=full and number == 0, remarks=remarks)
            lines += _indent(item)
        return lines
    return dump_yaml({name: value})


def _item(value: Any, schema: JsonObject, *, full: bool, remarks: Remarks) -> list[str]:
    if not isinstance(value, dict) or not value:
        return dump_yaml([value])
    return _list_item(annotate(value, schema, full=full, remarks=remarks))


def _commented_field(name: str, schema: JsonObject) -> list[str]:
    """Return an optional field and its nested fields, with example values."""
    items = schema.get("items")
    listed = isinstance(items, dict) and bool(items.get("properties"))
    inner: JsonObject = items if listed and isinstance(items, dict) else schema
    described = {key: each for key, each in inner.get("properties", {}).items() if each.get("description")}
    if not described:
        return [f"{name}: {_example_value(schema)}"]
    lines: list[str] = []
    for key, each in described.items():
        lines += [
            *_description(each, required=key in inner.get("required", ())),
            *_commented_field(key, each),
        ]
    return [f"{name}:", *_indent(_list_item(lines) if listed else lines)]


def _list_item(lines: list[str]) -> list[str]:
    """Return the lines of a mapping as a list item; leading comments stay above the dash."""
    first = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return [*lines[:first], f"- {lines[first]}", *_indent(lines[first + 1 :])]


def _example_value(schema: JsonObject) -> str:
    """Return an example value: the default, the first enum value, or an empty value of the type."""
    if "default" in schema:
        return json.dumps(schema["default"])
    if schema.get("enum"):
        return json.dumps(schema["enum"][0])
    empty = {"object": "{}", "array": "[]", "string": '""', "boolean": "false"}
    return empty.get(schema.get("type", ""), json.dumps(schema.get("minimum", 1)))


def _description(schema: JsonObject, *, required: bool) -> list[str]:
    parts = [schema["description"]] if schema.get("description") else []
    if not parts:
        return []
    if required:
        parts.append("Required.")
    if schema.get("enum"):
        parts.append(f"One of {', '.join(map(str, schema['enum']))}.")
    if schema.get("default") not in (None, {}, []):
        parts.append(f"Default: {schema['default']}.")
    return comment_lines(" ".join(parts))


def comment_lines(text: str) -> list[str]:
    """Return the text as comment lines."""
    return [f"# {line}" for line in textwrap.wrap(text, WIDTH - 10, break_on_hyphens=False)]


def _indent(lines: Iterable[str]) -> list[str]:
    return [f"{_STEP}{line}" if line else line for line in lines]
