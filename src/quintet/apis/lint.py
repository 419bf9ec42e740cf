"""Finds what a schema lacks although the API server accepts it.

The unit tests of each kind call `problems` and expect none: every field is described, and every
string, list, map and integer has a bound, which the CEL cost budget needs as well.
"""

from collections.abc import Iterator

from quintet.apis.fields import FieldPath
from quintet.apis.meta import JsonObject

SHORT_FORMATS = frozenset({"date-time", "date", "ipv4", "ipv6", "uuid"})
WRITTEN_BY_KUBERNETES = frozenset({"apiVersion", "kind", "metadata"})


def problems(schema: JsonObject) -> list[str]:
    """Return everything that is missing, as `path: what`, in the order of the schema."""
    found = []
    for name, child in schema.get("properties", {}).items():
        if name not in WRITTEN_BY_KUBERNETES:
            found += list(_problems(child, FieldPath(name), described=False))
    return found + list(_rule_problems(schema, FieldPath()))


def _problems(schema: JsonObject, path: FieldPath, *, described: bool) -> Iterator[str]:
    if not described and not schema.get("description"):
        yield f"{path}: has no description"
    for keyword in _missing_bounds(schema):
        yield f"{path}: has no {keyword}"
    yield from _rule_problems(schema, path)
    for name, child in schema.get("properties", {}).items():
        yield from _problems(child, path.child(name), described=False)
    if "items" in schema:
        yield from _problems(schema["items"], path.index("*"), described=True)
    if "additionalProperties" in schema:
        yield from _problems(schema["additionalProperties"], path.key("*"), described=True)


def _missing_bounds(schema: JsonObject) -> Iterator[str]:
    match schema.get("type"):
        case "string" if "enum" not in schema and schema.get("format") not in SHORT_FORMATS:
            wanted = "maxLength"
        case "array":
            wanted = "maxItems"
        case "object" if "additionalProperties" in schema:
            wanted = "maxProperties"
        case "integer" | "number":
            wanted = "minimum"
        case _:
            return
    if wanted not in schema:
        yield wanted


def _rule_problems(schema: JsonObject, path: FieldPath) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        if not (rule.get("message") or rule.get("messageExpression")):
            yield f"{path or 'the object'}: the rule `{rule['rule']}` has no message"
