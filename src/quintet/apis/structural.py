"""Validates an object against the structural schema of its kind, without an API server.

Pure. It rejects what the API server rejects because of the schema, and the unknown fields that
`kubectl apply` rejects. It does not check policies, quota, and rules that compare with the old object.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from quintet.apis.fields import METADATA, OMITTED, ErrorType, FieldError, FieldErrors, FieldPath
from quintet.apis.labels import check_labels
from quintet.apis.meta import JsonObject
from quintet.apis.quantity import amount

CHECKED: Final = frozenset(
    {
        "type", "format", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "minProperties",
        "maxProperties", "required", "properties", "additionalProperties", "items", "nullable",
        "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-validations",
    }
)  # fmt: skip
"""The keywords that are checked."""
SAID: Final = frozenset({"description", "default", "x-kubernetes-map-type", "x-kubernetes-embedded-resource"})
"""The keywords that reject nothing here."""

QUANTITY: Final[JsonObject] = {"format": "quantity"}
"""The schema of a quantity. No CRD can have it, so only `value_errors` meets it."""

LONGEST_NAME: Final = 253
NAME_RULE: Final = (
    f"must be at most {LONGEST_NAME} lower-case letters, digits, '-' and '.', and begin and end with a "
    "letter or digit"
)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": lambda value: _is_number(value),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
}
_UNITS: Final = {"string": "characters", "array": "items", "object": "keys"}


Rules = Mapping[str, Callable[[Any], bool]]
"""CEL rules of schemas and the same rules in Python. A rule that is missing here counts as satisfied."""


def schema_errors(schema: JsonObject, obj: JsonObject, rules: Rules) -> list[FieldError]:
    """Return all violations of the schema. The status is skipped: users cannot write it."""
    ours = {name: child for name, child in schema["properties"].items() if name not in ("metadata", "status")}
    written = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    errors = FieldErrors()
    _check_metadata(obj.get("metadata") or {}, errors)
    _check({**schema, "properties": ours}, written, FieldPath(), errors)
    if not errors.found:  # rules apply only to values that match their schema
        _check_rules({**schema, "properties": ours}, obj, FieldPath(), rules, errors)
    return list(errors)


def value_errors(schema: JsonObject, value: Any, path: FieldPath) -> list[FieldError]:
    """Return all violations of the schema by a part of an object."""
    errors = FieldErrors()
    _check(schema, value, path, errors)
    return list(errors)


def with_schema_defaults(schema: JsonObject, value: Any) -> Any:
    """Return a valid value as the API server stores it: without nulls, and with all defaults."""
    if isinstance(value, list):
        return [with_schema_defaults(schema.get("items", {}), item) for item in value]
    if not isinstance(value, dict):
        return value
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    free = others if isinstance(others, dict) else {"nullable": True}
    below = {name: known.get(name, free) for name in value}
    kept = {name: child for name, child in value.items() if not _is_dropped(below[name], child)}
    read = {name: with_schema_defaults(below[name], child) for name, child in kept.items()}
    for name, child in known.items():
        if "default" in child and name not in read:
            read[name] = with_schema_defaults(child, child["default"])
    return read


def _check_metadata(metadata: JsonObject, errors: FieldErrors) -> None:
    """Check what the API server checks for every kind."""
    name = metadata.get("name")
    if not name and not metadata.get("generateName"):
        errors.required(METADATA.child("name"), "must be set, or generateName must")
    elif name and not (isinstance(name, str) and len(name) <= LONGEST_NAME and _NAME.fullmatch(name)):
        errors.invalid(METADATA.child("name"), name, NAME_RULE)
    for field in ("labels", "annotations"):
        written = metadata.get(field) or {}
        if not isinstance(written, dict):
            errors.type_invalid(METADATA.child(field), written, "object")
            continue
        for key, value in written.items():
            if not isinstance(value, str):
                errors.type_invalid(METADATA.child(field).key(str(key)), value, "string")
    if isinstance(metadata.get("labels"), dict) and not errors.found:
        check_labels(errors, METADATA.child("labels"), metadata["labels"])


def _check(
    schema: JsonObject, value: Any, path: FieldPath, errors: FieldErrors, *, free: bool = False
) -> None:
    """Validate a value; `free`: an enclosing list preserves unknown fields, and so do its items."""
    free = free or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if value is None and schema.get("nullable"):
        return
    if wanted := _find_expected_type(schema, value):
        errors.type_invalid(path, value, wanted)
        return
    if "enum" in schema and value not in schema["enum"]:
        errors.not_supported(path, str(value), map(str, schema["enum"]))
    if schema == QUANTITY:
        if amount(value) is None:
            errors.invalid(path, value, "is not a quantity such as 500m, 2 or 1Gi")
        return
    if problem := _problem(schema, value):
        errors.invalid(path, value if not isinstance(value, dict | list) else OMITTED, problem)
    if isinstance(value, dict):
        _check_object(schema, value, path, errors, free=free)
    elif isinstance(value, list):
        _check_list(schema, value, path, errors, free=free)


def _find_expected_type(schema: JsonObject, value: Any) -> str:
    """Return the type that a value should have; empty if it has it."""
    if schema.get("x-kubernetes-int-or-string"):
        fits = _TYPES["integer"](value) or isinstance(value, str)
        return "" if fits else "integer or string"
    wanted = schema.get("type")  # only free-form schemas have none
    return "" if wanted is None or _TYPES[wanted](value) else str(wanted)


def _problem(schema: JsonObject, value: Any) -> str:
    if isinstance(value, str):
        return _length_problem(schema, value, "Length", "string") or _text_problem(schema, value)
    if isinstance(value, list):
        return _length_problem(schema, value, "Items", "array")
    if isinstance(value, dict):
        return _length_problem(schema, value, "Properties", "object")
    return _number_problem(schema, value) if _is_number(value) else ""


def _length_problem(schema: JsonObject, value: Any, suffix: str, type_: str) -> str:
    lowest, highest = schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    if lowest is not None and len(value) < lowest:
        return f"must have at least {lowest} {_UNITS[type_]}"
    if highest is not None and len(value) > highest:
        return f"must have at most {highest} {_UNITS[type_]}"
    return ""


def _text_problem(schema: JsonObject, text: str) -> str:
    pattern = schema.get("pattern")
    if pattern is not None and re.search(pattern, text) is None:
        return f"must match {pattern}"
    if schema.get("format") == "date-time" and not _is_time(text):
        return "must be a time such as 2026-01-31T12:00:00Z"
    return ""


def _number_problem(schema: JsonObject, number: float) -> str:
    lowest, highest = schema.get("minimum"), schema.get("maximum")
    if lowest is not None and (number < lowest or (schema.get("exclusiveMinimum") and number == lowest)):
        return f"must be greater than {'' if schema.get('exclusiveMinimum') else 'or equal to '}{lowest}"
    if highest is not None and (number > highest or (schema.get("exclusiveMaximum") and number == highest)):
        return f"must be less than {'' if schema.get('exclusiveMaximum') else 'or equal to '}{highest}"
    if "multipleOf" in schema and number % schema["multipleOf"]:
        return f"must be a multiple of {schema['multipleOf']}"
    bits = {"int32": 31, "int64": 63}.get(schema.get("format", ""))
    if bits is not None and not -(2**bits) <= number < 2**bits:
        return f"must fit {bits + 1} bits"
    return ""


def _check_object(
    schema: JsonObject, value: JsonObject, path: FieldPath, errors: FieldErrors, *, free: bool
) -> None:
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    written = {name for name in value if name not in known or not _is_dropped(known[name], value[name])}
    for name in schema.get("required", ()):
        if name not in written:
            errors.required(path.child(name))
    for name, child in value.items():
        if name in known:
            if name in written:
                _check(known[name], child, path.child(name), errors)
        elif isinstance(others, dict):
            if not _is_dropped(others, child):
                _check(others, child, path.key(name), errors)
        elif not (others or free):
            errors.found.append(_unknown(path.child(str(name)), str(name), known))


def _is_dropped(schema: JsonObject, value: Any) -> bool:
    """Return whether the API server treats a value as absent."""
    return value is None and not schema.get("nullable")


def _unknown(path: FieldPath, name: str, known: JsonObject) -> FieldError:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'?" if near else ""
    return FieldError(path, ErrorType.NOT_SUPPORTED, message="there is no such field", next_step=hint)


def _check_list(
    schema: JsonObject, items: Sequence[Any], path: FieldPath, errors: FieldErrors, *, free: bool
) -> None:
    for index, item in enumerate(items):
        _check(schema.get("items", {}), item, path.index(index), errors, free=free)
    seen: list[Any] = []
    for index, mark in _marks(schema, items):
        if mark in seen:
            errors.duplicate(path.index(index), mark)
        seen.append(mark)


def _marks(schema: JsonObject, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Return the key that must be unique in a list."""
    keys = schema.get("x-kubernetes-list-map-keys", ())
    for index, item in enumerate(items):
        if schema.get("x-kubernetes-list-type") == "set":
            yield index, item
        elif keys and isinstance(item, dict):
            defaults = {key: schema["items"]["properties"].get(key, {}).get("default") for key in keys}
            yield index, {key: item.get(key, defaults[key]) for key in keys}


def _check_rules(schema: JsonObject, value: Any, path: FieldPath, rules: Rules, errors: FieldErrors) -> None:
    for rule in schema.get("x-kubernetes-validations", ()):
        if not rules.get(rule["rule"], _holds)(value):
            errors.invalid(path, OMITTED, rule["message"])
    if isinstance(value, dict):
        for name, child in value.items():
            below = schema.get("properties", {}).get(name)
            if below is not None and child is not None:
                _check_rules(below, child, path.child(name), rules, errors)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_rules(schema.get("items", {}), item, path.index(index), rules, errors)


def _holds(value: Any) -> bool:
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None and "T" in text.upper()
    except ValueError:
        return False
