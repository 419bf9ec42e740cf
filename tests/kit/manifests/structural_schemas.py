"""What an API server does with an object and a structural schema: drop, default, check.

Only as much of it as the tests of schemas need: no rules, no embedded objects, no lists of named things.
"""

from typing import Any

import jsonschema

from quintet.apis.meta import JsonObject

KEEPS = "x-kubernetes-preserve-unknown-fields"
_CHECKED = (
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "multipleOf",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "pattern", "required",
)  # fmt: skip


def fits(schema: JsonObject, value: Any) -> bool:
    """Whether a value is allowed."""
    return jsonschema.Draft4Validator(_draft4(schema)).is_valid(value)


def pruned(schema: JsonObject, value: Any) -> Any:
    """A value without the fields that a schema neither names nor keeps."""
    if isinstance(value, list):
        return [pruned(schema.get("items", schema), each) for each in value]
    if not isinstance(value, dict):
        return value
    named, rest = schema.get("properties", {}), schema.get("additionalProperties")
    made = {}
    for name, each in value.items():
        if name in named:
            made[name] = pruned(named[name], each)
        elif isinstance(rest, dict):
            made[name] = pruned(rest, each)
        elif schema.get(KEEPS):
            made[name] = each
    return made


def defaulted(schema: JsonObject, value: Any) -> Any:
    """A value with the defaults of the fields that it does not have."""
    if isinstance(value, list):
        return [defaulted(schema.get("items", {}), each) for each in value]
    if not isinstance(value, dict):
        return value
    named, rest = schema.get("properties", {}), schema.get("additionalProperties", {})
    made = {name: field["default"] for name, field in named.items() if "default" in field} | value
    return {name: defaulted(named.get(name, rest), each) for name, each in made.items()}


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
