"""YAML for generated files: block style, stable order, no aliases."""

from collections.abc import Mapping
from typing import Any

import yaml

HEADER = "# Generated from src/quintet by `make generate`. Changes here are overwritten.\n"
WIDTH = 110
# Longer lists of strings are written on one line, such as the seventy signals of a container.
MANY = 16


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key and never writes aliases."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


def _style(text: str) -> str | None:
    if not text.replace("\n", "").isprintable():
        return '"'  # PyYAML would write some control characters unescaped, and YAML reads them as line breaks
    return "|" if "\n" in text else None


def _list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.SequenceNode:
    one_line = len(items) > MANY and all(isinstance(item, str) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=one_line)


_Dumper.add_representer(str, _string)
_Dumper.add_representer(list, _list)


def as_yaml(*documents: Mapping[str, Any]) -> str:
    """Return the content of a generated file."""
    body = yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        width=WIDTH,
        allow_unicode=True,
        explicit_start=len(documents) > 1,
    )
    return HEADER + body
