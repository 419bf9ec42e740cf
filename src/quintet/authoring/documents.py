"""Reads manifests from files as `kubectl` does.

YAML follows the rules of Kubernetes, not those of PyYAML: timestamps stay text, `1:30` is no number, and a
duplicate key is an error.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"^[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_FLOAT = re.compile(
    r"^([-+]?([0-9][0-9_]*\.[0-9_]*|[0-9][0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"
)


class Document(NamedTuple):
    """One document of a file; `problem` is set if it cannot be parsed."""

    file: str
    number: int
    value: Any = None
    problem: str = ""


class _Loader(_Base):  # type: ignore[misc]  # one of two base classes, known only at run time
    """A YAML loader with the rules of Kubernetes."""

    yaml_implicit_resolvers: ClassVar = {
        first: [
            (tag, expression)
            for tag, expression in known
            if tag.rpartition(":")[2] not in ("timestamp", "value", "int", "float")
        ]
        for first, known in _Base.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"duplicate key '{key.value}'", key.start_mark
                    )
                seen.add(key.value)
        found: dict[Hashable, Any] = super().construct_mapping(node, deep=True)
        return found


_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))


def _integer(loader: Any, node: yaml.ScalarNode) -> int:
    text = node.value.replace("_", "").replace("0o", "0")
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    if digits[:2] in ("0b", "0x"):
        return sign * int(digits, 0)
    return sign * int(digits, 8 if len(digits) > 1 and digits[0] == "0" else 10)


_Loader.add_constructor("tag:yaml.org,2002:int", _integer)


def find_files(paths: tuple[str, ...], *, recursive: bool) -> Iterator[str]:
    """Yield the files; a directory stands for the manifests in it."""
    for path in paths:
        if path == STDIN or not Path(path).is_dir():
            yield path
            continue
        found = Path(path).rglob("*") if recursive else Path(path).glob("*")
        yield from (str(each) for each in sorted(found) if each.suffix in SUFFIXES and each.is_file())


def read_documents(file: str) -> Iterator[Document]:
    """Yield the documents of a file in order, without empty ones.

    Raises `OSError` if the file cannot be read.
    """
    content = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    name = "standard input" if file == STDIN else file
    number = 0
    try:
        for number, value in enumerate(yaml.load_all(content, Loader=_Loader), 1):
            if value is not None:
                yield Document(name, number, value)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        yield Document(name, number + 1, problem=f"cannot be parsed: {_one_line(error)}")


def split_list(document: Document) -> Iterator[Document]:
    """Yield the document itself, or the items of a List object."""
    value = document.value
    if isinstance(value, dict) and str(value.get("kind", "")).endswith("List"):
        items = value.get("items")
        if isinstance(items, list):
            yield from (document._replace(value=item) for item in items)
            return
    yield document


def _one_line(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem or error.context}"
    return " ".join(str(error).split())[:300]
