"""Cases for every property of a CRD: values that its schema allows, and values that it forbids.

Generated from the structural schema alone, so that a new field is covered without anybody thinking of it.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from quintet.apis.fields import FieldPath
from quintet.apis.meta import JsonObject
from quintet.apis.structural import value_errors

ITEM = "[]"
"""The step from a list to an item of it."""
KEY = "{}"
"""The step from a map to a value of it."""
GIVEN_KEY = "some-key"
COMPLETE: Mapping[str, JsonObject] = {
    "policies": {"name": "one", "include": {"kinds": ["Deployment"]}, "values": {"envs": {"A": "1"}}},
    "volumeClaimTemplates": {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
}
"""Items of lists whose schema does not tell what they need."""
IMAGE = "quintet.local/none:1"
TEXTS = (
    "a",
    "b",
    "app",
    "1",
    "5s",
    "1Gi",
    "100m",
    "/a",
    "a.b",
    "http://a.b",
    "{}",
    '{"a": []}',
    "1-2",
    "a=b",
    "1d",
)
NUMBERS = (1, 2, 0, 5, 80, 1000, 30000)
WRONG_TYPES: tuple[Any, ...] = ("text", 7, 1.5, True, [1], {"a": 1})


@dataclass(frozen=True)
class Property:
    """A property of a kind: the steps to it from the top of an object, and its schema."""

    steps: tuple[str, ...]
    schema: JsonObject

    def __str__(self) -> str:
        return ".".join(self.steps).replace(f".{ITEM}", ITEM).replace(f".{KEY}", KEY)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of which an error must contain one: that of the property, or of what holds it."""
        named = [step for step in self.steps if step not in (ITEM, KEY)]
        return tuple(named[-2:]) if len(named) > 2 else tuple(named[-1:])


def properties(schema: JsonObject) -> Iterator[Property]:
    """Yield all properties below the spec of a schema of an object."""
    yield from _below(schema["properties"]["spec"], ("spec",))


def with_part(schema: JsonObject, steps: tuple[str, ...], part: JsonObject) -> JsonObject:
    """Return a schema with another schema in place of a part, such as one that preserves unknown fields."""
    if not steps:
        return part
    step, *rest = steps
    key = {ITEM: "items", KEY: "additionalProperties"}.get(step)
    if key is not None:
        return {**schema, key: with_part(schema[key], tuple(rest), part)}
    known = schema["properties"]
    return {**schema, "properties": {**known, step: with_part(known[step], tuple(rest), part)}}


def _below(schema: JsonObject, steps: tuple[str, ...]) -> Iterator[Property]:
    children: list[tuple[str, JsonObject]] = list(schema.get("properties", {}).items())
    if isinstance(schema.get("additionalProperties"), dict):
        children.append((KEY, schema["additionalProperties"]))
    if isinstance(schema.get("items"), dict):
        children.append((ITEM, schema["items"]))
    for step, child in children:
        yield Property((*steps, step), child)
        yield from _below(child, (*steps, step))


def allowed_values(schema: JsonObject) -> list[Any]:
    """Return at most three different values that a schema allows."""
    if "enum" in schema:
        return [each for each in schema["enum"] if each is not None][:3]
    candidates: list[Any] = []
    if schema.get("x-kubernetes-int-or-string"):
        candidates = [1, "50%", "1"]
    elif schema.get("type") == "boolean":
        candidates = [True, False]
    elif schema.get("type") in ("integer", "number"):
        bounds = [schema[key] for key in ("minimum", "maximum") if key in schema]
        candidates = [*bounds, *NUMBERS]
    elif schema.get("type") == "string":
        if schema.get("format") == "date-time":
            candidates = ["2026-01-31T12:00:00Z", "2027-01-31T12:00:00Z"]
        candidates += TEXTS
        if "maxLength" in schema and schema["maxLength"] <= 1024:
            candidates.append("a" * schema["maxLength"])
    elif _type(schema) == "array":
        candidates = [[], [minimal(schema.get("items", {}))]]
    elif _type(schema) == "object":
        candidates = [minimal(schema), {}, {"a": "b"}]
    else:
        candidates = ["a", 1, {"a": "b"}]
    found: list[Any] = []
    for value in candidates:
        if value not in found and not value_errors(schema, value, FieldPath()):
            found.append(value)
    return found[:3]


def forbidden_values(schema: JsonObject) -> list[Any]:
    """Return values that a schema forbids: other types, and what lies beyond each bound."""
    # The API server itself admits a list where a time belongs.
    candidates = [each for each in WRONG_TYPES if each != [1] or schema.get("format") != "date-time"]
    if "enum" in schema:
        candidates.append("no-such-value")
    for key, beyond in (("minimum", -1), ("maximum", 1)):
        if key in schema:
            candidates.append(schema[key] + beyond)
    if schema.get("format") in ("int32", "int64"):
        candidates.append(2**63 if schema["format"] == "int64" else 2**31)
    if schema.get("maxLength", 2048) <= 1024:
        candidates.append("a" * (schema["maxLength"] + 1))
    if "pattern" in schema:
        candidates += ["", " ", "Ä b"]
    if schema.get("maxItems", 2048) <= 256:
        candidates.append([minimal(schema.get("items", {}))] * (schema["maxItems"] + 1))
    return [value for value in candidates if value_errors(schema, value, FieldPath())]


def minimal(schema: JsonObject) -> Any:
    """Return the smallest value that a schema allows, as far as its bounds tell."""
    if "default" in schema:
        return copy.deepcopy(schema["default"])
    if "enum" in schema:
        return next(each for each in schema["enum"] if each is not None)
    kind = _type(schema)
    if kind == "object":
        known = schema.get("properties", {})
        made = {name: minimal(known[name]) for name in schema.get("required", ()) if name in known}
        if "image" in known and "command" in known:
            made["image"] = IMAGE  # no schema requires it, Kubernetes does
        if schema.get("minProperties") and not made and isinstance(schema.get("additionalProperties"), dict):
            made[GIVEN_KEY] = minimal(schema["additionalProperties"])
        return made
    if kind == "array":
        return [minimal(schema["items"]) for _ in range(schema.get("minItems", 0))]
    simple = {**schema}
    simple.pop("default", None)
    return next(iter(allowed_values(simple)), None)


def place(schema: JsonObject, obj: JsonObject, steps: tuple[str, ...], value: Any) -> JsonObject:
    """Return a copy of an object with a value at a property; missing parents are made minimal."""
    made: JsonObject = copy.deepcopy(dict(obj))
    where: Any = made
    part = schema
    for index, step in enumerate(steps):
        last = index == len(steps) - 1
        if step == ITEM:
            part = part["items"]
            if not where:
                where.append(copy.deepcopy(COMPLETE.get(steps[index - 1])) or minimal(part))
            key: Any = 0
        elif step == KEY:
            part = part["additionalProperties"]
            key = next(iter(where), GIVEN_KEY)
        else:
            part = part["properties"][step]
            key = step
        if last:
            where[key] = copy.deepcopy(value)
        else:
            present = where[key] if isinstance(where, list) or key in where else None
            empty = _empty(part)
            if not isinstance(present, type(empty)):
                where[key] = minimal(part) if isinstance(minimal(part), type(empty)) else empty
            where = where[key]
    return made


def _empty(schema: Mapping[str, Any]) -> Any:
    return [] if _type(schema) == "array" else {}


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a schema; a part that preserves unknown fields may not declare it."""
    found = "array" if "items" in schema else "object" if "properties" in schema else ""
    return str(schema.get("type", found))
