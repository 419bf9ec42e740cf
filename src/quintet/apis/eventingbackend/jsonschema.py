"""Builds a JSON Schema (2020-12) of `spec.config` for one backend type, for editors and linters.

Pure. The schema never rejects what `validation` accepts. It accepts slightly more: a schema cannot
express bounds of quantities and durations, or rules between options.
"""

from typing import Any

from quintet.apis import durations
from quintet.apis.eventingbackend.keys import BackendType, DataType, Key
from quintet.apis.eventingbackend.types import MOST_ENTRIES
from quintet.apis.eventingbackend.values import QUANTITY_PATTERN
from quintet.apis.meta import JsonObject

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def config_schema(backend: BackendType) -> JsonObject:
    """Return the schema of the list of one-key maps."""
    return {
        "$schema": DIALECT,
        "title": f"spec.config of an EventingBackend of type {backend.name}",
        "description": backend.description,
        "type": "array",
        "maxItems": MOST_ENTRIES,
        "items": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
            "properties": {key.name: _value_schema(key) for key in backend.keys},
        },
        "allOf": [_times(key) for key in backend.keys],
    }


def _times(key: Key) -> JsonObject:
    """Return how often an option may occur in the list."""
    must = key.required and key.default is None
    contains: JsonObject = {"type": "object", "required": [key.name]}
    return {"contains": contains, "minContains": int(must), "maxContains": 1}


def _value_schema(key: Key) -> JsonObject:
    schema: dict[str, Any] = {"description": key.description} | _type_schema(key)
    if key.default is not None:
        schema["default"] = key.default
    if key.sensitive:
        schema["writeOnly"] = True
    if key.deprecated:
        schema["deprecated"] = True
    return schema


def _type_schema(key: Key) -> JsonObject:
    match key.data_type:
        case DataType.INT:
            return {"type": "integer", "minimum": key.minimum, "maximum": key.maximum}
        case DataType.QUANTITY:
            return {"type": ["string", "number"], "pattern": QUANTITY_PATTERN}
        case DataType.DURATION:
            return {"type": "string", "pattern": durations.PATTERN}
        case DataType.STRING if key.allowed:
            return {"type": "string", "enum": list(key.allowed)}
        case DataType.STRING:
            bounds: JsonObject = {"minLength": 1, "maxLength": key.longest}
            if key.pattern is not None:
                bounds["pattern"] = key.pattern.expression
            return {"type": "string", **bounds}
