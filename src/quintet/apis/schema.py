"""Generates the structural OpenAPI v3 schema of a CRD from types.

The rules:

- required = no default; a default goes into the schema only where the field says `DEFAULTED`;
- an `int` is int32 if both of its bounds fit, else int64; `int | str` is int-or-string;
- a list without a list type, and `Any`, a map of it or a mixed union without `FREE_FORM`, are rejected;
- a description is the field's `Meta(description=…)`, else the docstring of its struct or enum.
`lint` finds what is valid but careless, such as a string without a bound.
"""

import enum
import inspect
import types
import typing
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from quintet.apis.fields import FieldPath
from quintet.apis.markers import ATOMIC, FREE_FORM, Defaulted, Keywords, OneOrMany, Rule, Verbatim
from quintet.apis.meta import JsonObject
from quintet.apis.wellknown import SCHEMAS

DEEPEST = 40
SCALARS: Mapping[type, JsonObject] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
}
BOUNDS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


class SchemaError(Exception):
    """Raised for a type that has no structural schema; names the field and what to write instead."""


def struct_schema(struct: type[msgspec.Struct], path: FieldPath | None = None) -> JsonObject:
    """Return the schema of a struct with all its fields."""
    path = path or FieldPath()
    if len(path.parts) > DEEPEST:
        raise SchemaError(f"{path}: goes on without end; a structural schema cannot be recursive")
    hints = typing.get_type_hints(struct, include_extras=True)
    fields = msgspec.structs.fields(struct)
    schema: JsonObject = {"type": "object"}
    if text := _docstring(struct):
        schema["description"] = text
    required = [field.encode_name for field in fields if field.required]
    if required:
        schema["required"] = required
    schema["properties"] = {
        field.encode_name: _field_schema(hints[field.name], field, path.child(field.encode_name))
        for field in fields
    }
    rules = getattr(struct, "rules", ())
    if isinstance(rules, tuple):  # skipped in a struct with a field of that name
        add_rules(schema, rules)
    return sort_keywords(schema)


def add_rules(schema: JsonObject, rules: Iterable[Rule]) -> None:
    """Append CEL rules to those of the schema."""
    if entries := [rule.schema() for rule in rules]:
        schema["x-kubernetes-validations"] = [*schema.get("x-kubernetes-validations", ()), *entries]


def _field_schema(hint: Any, field: msgspec.structs.FieldInfo, path: FieldPath) -> JsonObject:
    schema = type_schema(hint, path)
    if any(isinstance(marker, Defaulted) for marker in _split(hint)[1]):
        if field.required or field.default is None:
            raise SchemaError(f"{path}: is DEFAULTED but its struct gives it no default")
        factory = field.default_factory
        schema["default"] = msgspec.to_builtins(field.default if factory is msgspec.NODEFAULT else factory())
    return sort_keywords(schema)


def type_schema(hint: Any, path: FieldPath) -> JsonObject:
    """Return the schema of a type with all its markers."""
    bare, markers = _split(hint)
    verbatim = next((marker for marker in markers if isinstance(marker, Verbatim)), None)
    if any(isinstance(marker, OneOrMany) for marker in markers):
        bare = next(each for each in typing.get_args(bare) if typing.get_origin(_split(each)[0]) is tuple)
        return _one_or_many(type_schema(typing.Annotated[bare, ATOMIC, *_unlike(markers, OneOrMany)], path))
    keywords: JsonObject = {}
    for marker in markers:
        if isinstance(marker, Keywords):
            keywords |= marker.schema
    schema = dict(verbatim.schema) if verbatim else _bare_schema(bare, keywords, path)
    for marker in markers:
        if isinstance(marker, msgspec.Meta):
            _add_meta(schema, marker)
    if schema.get("type") == "integer" and "format" not in schema | keywords:
        schema["format"] = _integer_format(schema)
    schema |= keywords
    add_rules(schema, (marker for marker in markers if isinstance(marker, Rule)))
    _refuse_unclear(schema, path)
    return sort_keywords(schema)


def _one_or_many(schema: JsonObject) -> JsonObject:
    """Return a schema that allows a list or a single item, whose fields are not pruned."""
    without = {key: value for key, value in schema.items() if key not in ("type", *ATOMIC.schema)}
    return sort_keywords(without | FREE_FORM.schema)


def _unlike(markers: list[Any], kind: type) -> Iterable[Any]:
    return (marker for marker in markers if not isinstance(marker, kind))


def _bare_schema(bare: Any, keywords: JsonObject, path: FieldPath) -> JsonObject:
    if bare in SCHEMAS:
        return dict(SCHEMAS[bare])
    if bare in SCALARS:
        return dict(SCALARS[bare])
    origin, arguments = typing.get_origin(bare), typing.get_args(bare)
    union = origin in (typing.Union, types.UnionType)
    if bare in (Any, msgspec.Raw) or (union and "x-kubernetes-preserve-unknown-fields" in keywords):
        return {}
    if union and set(arguments) == {int, str}:
        return {"x-kubernetes-int-or-string": True}
    if origin is typing.Literal:
        return _enum_schema(arguments, path)
    if origin is dict and arguments[0] is str:
        return _map_schema(arguments[1], keywords, path)
    if origin in (list, frozenset, set) or (origin is tuple and arguments[1:] == (...,)):
        return {"type": "array", "items": type_schema(arguments[0], path.index("*"))}
    if isinstance(bare, type) and issubclass(bare, enum.Enum):
        schema = _enum_schema([member.value for member in bare], path)
        return schema | ({"description": text} if (text := _docstring(bare)) else {})
    if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
        return struct_schema(bare, path)
    raise SchemaError(
        f"{path}: no structural schema can be made of {bare!r}; use a Struct, or Verbatim(schema)"
    )


def _map_schema(values: Any, keywords: JsonObject, path: FieldPath) -> JsonObject:
    if "x-kubernetes-preserve-unknown-fields" in keywords:
        return {"type": "object"}
    return {"type": "object", "additionalProperties": type_schema(values, path.key("*"))}


def _enum_schema(values: Iterable[object], path: FieldPath) -> JsonObject:
    texts = list(values)
    if not all(isinstance(text, str) for text in texts):
        raise SchemaError(f"{path}: an enum holds {texts!r}; use strings, which can grow and be read")
    return {"type": "string", "enum": texts}


def _add_meta(schema: JsonObject, meta: msgspec.Meta) -> None:
    shortest, longest = BOUNDS.get(schema.get("type", ""), ("minLength", "maxLength"))
    found = {
        "description": _one_line(meta.description) if meta.description else None,
        "minimum": meta.ge if meta.gt is None else meta.gt,
        "exclusiveMinimum": True if meta.gt is not None else None,
        "maximum": meta.le if meta.lt is None else meta.lt,
        "exclusiveMaximum": True if meta.lt is not None else None,
        "multipleOf": meta.multiple_of,
        "pattern": meta.pattern,
        shortest: meta.min_length,
        longest: meta.max_length,
    }
    schema |= {key: value for key, value in found.items() if value is not None}


def _integer_format(schema: JsonObject) -> str:
    bounds = (schema.get("minimum"), schema.get("maximum"))
    fits = all(bound is not None and -(2**31) <= bound < 2**31 for bound in bounds)
    return "int32" if fits else "int64"


def _refuse_unclear(schema: JsonObject, path: FieldPath) -> None:
    if schema.get("type") == "array":
        if "x-kubernetes-list-type" not in schema:
            raise SchemaError(f"{path}: a list must say how it is merged: list_map(…), SET or ATOMIC")
        for key in schema.get("x-kubernetes-list-map-keys", ()):
            item = schema["items"]
            if key not in item.get("required", ()) and "default" not in item.get("properties", {}).get(
                key, {}
            ):
                raise SchemaError(
                    f"{path}: its key `{key}` must be a required or DEFAULTED field of the items"
                )
    typeless = "x-kubernetes-int-or-string" in schema or "x-kubernetes-preserve-unknown-fields" in schema
    if "type" not in schema and not typeless:
        raise SchemaError(f"{path}: any value is allowed; say FREE_FORM if that is meant")


def _split(hint: Any) -> tuple[Any, list[Any]]:
    """Return a type without `Annotated` and `| None`, and its markers, innermost first."""
    markers: list[Any] = []
    while True:
        if typing.get_origin(hint) is typing.Annotated:
            markers = [*hint.__metadata__, *markers]
            hint = hint.__origin__
        elif typing.get_origin(hint) in (typing.Union, types.UnionType) and type(None) in typing.get_args(
            hint
        ):
            rest = [argument for argument in typing.get_args(hint) if argument is not type(None)]
            hint = rest[0] if len(rest) == 1 else typing.Union[tuple(rest)]  # noqa: UP007  # made at run time
        else:
            return hint, markers


def sort_keywords(schema: JsonObject) -> JsonObject:
    """Sort keywords for readers: description and type first, content last."""
    first, last = (
        ("description", "type", "format"),
        ("x-kubernetes-validations", "required", "properties", "items"),
    )
    middle = [key for key in schema if key not in (*first, *last)]
    return {key: schema[key] for key in (*first, *middle, *last) if key in schema}


def _docstring(cls: type) -> str:
    text = cls.__dict__.get("__doc__")
    return _one_line(inspect.cleandoc(text)) if text else ""


def _one_line(text: str) -> str:
    """Return paragraphs without the line breaks of the source."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n"))
