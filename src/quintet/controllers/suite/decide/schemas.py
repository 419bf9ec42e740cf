"""Which valid objects of one structural schema become invalid under another, or lose data.

Loosening is safe. What cannot be compared, and unknown keywords, count as tightening. Fields that a schema
does not name are validated by `additionalProperties`, preserved or pruned.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import chain
from typing import Any, Final

from quintet.apis.meta import JsonObject

_KEEPS: Final = "x-kubernetes-preserve-unknown-fields"
_RULES: Final = "x-kubernetes-validations"
_KEYS: Final = "x-kubernetes-list-map-keys"
_LENGTHS: Final = ("minLength", "minItems", "minProperties")
_LIMITS: Final = ("maxLength", "maxItems", "maxProperties")
_SHAPE: Final[JsonObject] = {
    "type": None,
    "x-kubernetes-list-type": "atomic",
    "x-kubernetes-map-type": "granular",
    "x-kubernetes-int-or-string": False,
    "x-kubernetes-embedded-resource": False,
}
"""Keywords that must not change, with their defaults."""
_WORDS: Final = frozenset(("description", "title", "example", "externalDocs"))
_COMPARED: Final = _WORDS.union(
    _SHAPE, _LENGTHS, _LIMITS, (_KEEPS, _RULES, _KEYS),
    ("properties", "additionalProperties", "items", "required", "nullable", "default", "enum"),
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "format"),
    ("allOf", "anyOf", "oneOf", "not", "uniqueItems"),
)  # fmt: skip
_ABSENT_FIELD: Final = re.compile(r"!has\(self((?:\.\w+)+)\) \|\| ")
_QUOTED: Final = re.compile(r"'[^'\\]*'|\"[^\"\\]*\"")
_INNERMOST: Final = re.compile(r"\([^()\[\]{}]*\)|\[[^()\[\]{}]*\]|\{[^()\[\]{}]*\}")
_WIDER: Final = (("int32", "int64"), ("float", "double"))
_ANYTHING: Final[JsonObject] = {_KEEPS: True}
"""A schema that neither validates nor prunes."""
_TEXT: Final[JsonObject] = {"type": "string"}
_OBJECT_META: Final[JsonObject] = {"name": _TEXT, "generateName": _TEXT}


def incompatible_changes(old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
    """Return the incompatible changes of an object's schema, each as `path: change`."""
    return _schema(_whole(old), _whole(new), path)


def display(value: Any) -> str:
    """Return a value as text for a message."""
    return "nothing" if value is None else str(value)


def _whole(schema: JsonObject) -> JsonObject:
    """Return the schema with the fields that every object has."""
    named = schema.get("properties", {})
    meta = named.get("metadata", {})
    inside = {**_OBJECT_META, **meta.get("properties", {})}
    metadata = {"type": "object", **meta, "properties": inside, _KEEPS: True}
    return {**schema, "properties": {"apiVersion": _TEXT, "kind": _TEXT, **named, "metadata": metadata}}


def _schema(old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
    if old == new:
        return
    if new == _ANYTHING:
        yield from _check_defaults(old, new, path)
    elif old.get("type") != new.get("type"):
        yield from _check_shape(old, new, path)
        return  # other differences follow from that
    else:
        yield from chain.from_iterable(check(old, new, path) for check in _CHECKS)
    yield from _fields(old, new, path)
    if "items" in old or "items" in new:
        yield from _schema(_items(old), _items(new), f"{path}[]")


def _schema_of_other_fields(schema: JsonObject) -> JsonObject | None:
    """Return the schema of unnamed fields; None if they are pruned."""
    found = schema.get("additionalProperties", False)
    if found is not False:
        return {} if found is True else found
    return _ANYTHING if schema.get(_KEEPS) else None


def _items(schema: JsonObject) -> JsonObject:
    found: JsonObject = schema.get("items", _ANYTHING if schema.get(_KEEPS) else {})
    return found


def _fields(old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
    known, given = old.get("properties", {}), new.get("properties", {})
    for name in dict.fromkeys((*known, *given)):
        before, after = (
            known.get(name, _schema_of_other_fields(old)),
            given.get(name, _schema_of_other_fields(new)),
        )
        if before is not None and after is None:
            yield f"{path}.{name}: the field is removed"
        elif before is not None and after is not None:
            yield from _schema(before, after, f"{path}.{name}")
    before, after = _schema_of_other_fields(old), _schema_of_other_fields(new)
    if before is not None and after is None:
        yield f"{path}: unknown fields are no longer preserved"
    elif before is not None and after is not None:
        yield from _schema(before, after, f"{path}[*]")


def _check_required(old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
    given = new.get("properties", {})
    for name in new.get("required", ()):
        if name not in old.get("required", ()) and "default" not in given.get(name, {}):
            yield f"{path}.{name}: the field is now required"
    for name, field in given.items() if "maxProperties" in new else ():
        if "default" in field and name not in old.get("properties", {}):
            yield f"{path}.{name}: its default could exceed maxProperties"


def _check_shape(old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
    for name, absent in _SHAPE.items():
        before, after = old.get(name, absent), new.get(name, absent)
        if before != after:
            yield f"{path}: {name} changes from {display(before)} to {display(after)}"
    if set(old.get(_KEYS, ())) != set(new.get(_KEYS, ())):
        yield f"{path}: {_KEYS} changes from {display(old.get(_KEYS))} to {display(new.get(_KEYS))}"
    if old.get("nullable") and not new.get("nullable"):
        yield f"{path}: null is no longer allowed"
    for name in sorted((old.keys() | new.keys()) - _COMPARED):
        if old.get(name) != new.get(name):
            yield f"{path}: {name} changes, and it is unknown whether that is safe"


def _check_bounds(old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
    tightened = [name for name in _LENGTHS if new.get(name, 0) > old.get(name, 0)]
    tightened += [name for name in _LIMITS if name in new and new[name] < old.get(name, float("inf"))]
    for name, exclusive, sign in (("minimum", "exclusiveMinimum", -1), ("maximum", "exclusiveMaximum", 1)):
        # An exclusive bound lies slightly inside an inclusive bound of the same value.
        ends = [
            (sign * each[name], not each.get(exclusive)) if name in each else (float("inf"), True)
            for each in (old, new)
        ]
        if ends[1] < ends[0]:
            same = old.get(name) == new.get(name)
            tightened.append(exclusive if same else name)
    for name in tightened:
        yield f"{path}: {name} is tightened from {display(old.get(name))} to {new[name]}"


def _check_values(old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
    for name in ("pattern", "format", "multipleOf", "uniqueItems"):
        if new.get(name) and new[name] != old.get(name) and not _is_looser(name, old.get(name), new[name]):
            yield f"{path}: {name} is tightened from {display(old.get(name))} to {new[name]}"
    if "enum" in new:
        gone = [value for value in old.get("enum", ()) if value not in new["enum"]]
        if "enum" not in old:
            yield f"{path}: only the values of the new enum are allowed"
        elif gone:
            yield f"{path}: no longer allows {', '.join(map(display, gone))}"


def _is_looser(name: str, before: Any, after: Any) -> bool:
    if before is None:
        return False
    if name == "multipleOf":
        return Decimal(str(before)) % Decimal(str(after)) == 0
    return name == "format" and (before, after) in _WIDER


def _check_choices(old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
    """Compare composed schemas: fewer `allOf` and more `anyOf` are looser."""
    if any(each not in old.get("allOf", ()) for each in new.get("allOf", ())):
        yield f"{path}: allOf has more schemas"
    if "anyOf" in new and ("anyOf" not in old or any(each not in new["anyOf"] for each in old["anyOf"])):
        yield f"{path}: anyOf has fewer schemas"
    for name in ("oneOf", "not"):
        if name in new and new[name] != old.get(name):
            yield f"{path}: {name} changes"


def _check_defaults(old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
    before, after = old.get("default"), new.get("default")
    if before != after:
        yield f"{path}: the default changes from {display(before)} to {display(after)}"


def _check_rules(old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
    known = {_demand(rule) for rule in old.get(_RULES, ())}
    for rule in new.get(_RULES, ()):
        if _demand(rule) not in known and not _is_looser_rule(rule, old):
            yield f"{path}: the rule `{rule['rule']}` is new"


def _is_looser_rule(declared: JsonObject, old: JsonObject) -> bool:
    """Return whether a rule has an alternative that every valid object of the old schema fulfils."""
    rule: str = declared["rule"]
    if declared.get("optionalOldSelf") or _has_ternary(rule):
        return False  # it binds weaker than `||`
    for each in old.get(_RULES, ()):
        if rule.startswith(f"{each['rule']} || ") and not _has_ternary(each["rule"]):
            return True
    absent = _ABSENT_FIELD.match(rule)
    return absent is not None and _cannot_have(absent[1].split(".")[1:], old)


def _cannot_have(path: list[str], schema: JsonObject) -> bool:
    """Return whether no object has the field at a path, but all have what contains it."""
    for name in path[:-1]:
        if name not in schema.get("required", ()):
            return False
        schema = schema.get("properties", {}).get(name, {})
    return path[-1] not in schema.get("properties", {}) and _schema_of_other_fields(schema) is None


def _has_ternary(rule: str) -> bool:
    """Return whether a CEL expression has `?` outside of parentheses, or may have it."""
    plain = _QUOTED.sub("", rule)
    while (reduced := _INNERMOST.sub("", plain)) != plain:
        plain = reduced
    return not set("?()[]{}'\"").isdisjoint(plain.replace("()", ""))


def _demand(rule: JsonObject) -> tuple[str, bool]:
    """Return the rule and, for a transition rule, whether it also applies to new objects."""
    return rule["rule"], bool(rule.get("optionalOldSelf"))


_CHECKS: Final[tuple[Callable[[JsonObject, JsonObject, str], Iterable[str]], ...]] = (
    _check_shape,
    _check_required,
    _check_bounds,
    _check_values,
    _check_choices,
    _check_defaults,
    _check_rules,
)
