"""Templates of Helm from objects, in which expressions take the place of single fields."""

import re

from quintet.apis.meta import JsonObject
from quintet.manifests.text import HEADER, as_yaml

_FIELD = re.compile(r"^( *)(\S+): '\{\{ (scalar|optional) (.+) \}\}'$")
_MERGED = re.compile(r"^( *)'\{\{ (.+) \}\}': ''$")
_ITEM = re.compile(r"^( *)- '\{\{ items (.+) \}\}'$")


def scalar(text: str) -> str:
    """Return a field with the value of an expression."""
    return f"{{{{ scalar {text} }}}}"


def optional(value: str) -> str:
    """Return a field that is left out if the value is empty."""
    return f"{{{{ optional {value} }}}}"


def merge(text: str) -> JsonObject:
    """Return fields that a value of the chart, or an expression that gives YAML, adds to an object."""
    return {f"{{{{ {text} }}}}": ""}


def items(value: str) -> str:
    """Return a list item that stands for all items of a value."""
    return f"{{{{ items {value} }}}}"


def as_template(body: JsonObject, condition: str = "") -> str:
    """Return the template of one object, which is left out if the condition is false."""
    written = as_yaml(body).removeprefix(HEADER).splitlines()
    lines = [line for each in written for line in _template_lines(each)]
    if condition:
        lines = [f"{{{{- if {condition} }}}}", *lines, "{{- end }}"]
    return "\n".join(lines) + "\n"


def _template_lines(line: str) -> list[str]:
    if (item := _ITEM.match(line)) is not None:
        indent, value = item.groups()
        return _with(indent, value, f"{indent}{{{{- toYaml . | nindent {len(indent)} }}}}")
    if (fields := _MERGED.match(line)) is not None:
        indent, text = fields.groups()
        if text.startswith("."):
            return _with(indent, text, f"{indent}{{{{- toYaml . | nindent {len(indent)} }}}}")
        return [f"{indent}{{{{- {text} | nindent {len(indent)} }}}}"]
    if (field := _FIELD.match(line)) is not None:
        indent, name, how, text = field.groups()
        if how == "scalar":
            return [f"{indent}{name}: {{{{ {text} }}}}"]
        inner = f"{indent}  {{{{- toYaml . | nindent {len(indent) + 2} }}}}"
        return _with(indent, text, f"{indent}{name}:", inner)
    # Expressions of Prometheus, which Helm must not evaluate.
    return [line.replace("{{ $", '{{ "{{" }} $')]


def _with(indent: str, value: str, *lines: str) -> list[str]:
    return [f"{indent}{{{{- with {value} }}}}", *lines, f"{indent}{{{{- end }}}}"]
