"""What an API server does with an object and a structural schema: prune, default, validate.

It covers what the tests of schemas need: no CEL rules, no embedded objects, no lists with keys.
"""

from typing import Any

import jsonschema

from quintet.apis.meta import JsonObject

KEEPS = "x-kubernetes-preserve-unknown-fields"
_CHECKED = (
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "multipleOf",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "pattern", "required",
)  # fmt: skip


def is_valid(schema: JsonObject, value: Any) -> bool:
    """Return whether a schema allows a value."""
    return jsonschema.Draft4Validator(_draft4(schema)).is_valid(value)


def prune(schema: JsonObject, value: Any) -> Any:
    """Return the value without fields that the schema neither declares nor preserves."""
    if isinstance(value, list):
        return [prune(schema.get("items", schema), each) for each in value]
    if not isinstance(value, dict):
        return value
    named, rest = schema.get("properties", {}), schema.get("additionalProperties")
    made = {}
    for name, each in value.items():
        if name in named:
            made[name] = prune(named[name], each)
        elif isinstance(rest, dict):
            made[name] = prune(rest, each)
        elif schema.get(KEEPS):
            made[name] = each
    return made


def apply_defaults(schema: JsonObject, value: Any) -> Any:
    """Return the value with the defaults of missing fields."""
    if isinstance(value, list):
        return [apply_defaults(schema.get("items", {}), each) for each in value]
    if not isinstance(value, dict):
        return value
    named, rest = schema.get("properties", {}), schema.get("additionalProperties", {})
    made = {name: field["default"] for name, field in named.items() if "default" in field} | value
    return {name: apply_defaults(named.get(name, rest), each) for name, each in made.items()}


def _draft4(schema: JsonObject) -> JsonObject:
    made = {key: schema[key] for key in _CHECKED if key in schema}
    if "type" in schema:
        made["type"] = [schema["type"], "null"] if schema.get("nullable") else schema["type"]
    if "enum" in schema:
        made["enum"] = [*schema["enum"], None] if schema.get("nullable") else schema["enum"]
    if schema.get("x-kubernetes-list-type") == "set":
        made["uniqueItems"] = True
    if "properties" in schema:
        made["properties"] = {name: _draft4(each) for name, each in schema["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            made[name] = _draft4(schema[name])
    return made
