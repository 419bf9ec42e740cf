"""What an API server says of its kinds, and our own definitions → JSON schemas as kubeconform reads them.

Pure. Published schemas are not needed then, and those of the very server that tests run on are used. Every
object is closed: a field that nobody knows is an error, as it is to `kubectl apply --validate=strict`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

JsonObject = dict[str, Any]
LOCATION = "{{.ResourceKind}}_{{.Group}}_{{.ResourceAPIVersion}}.json"
"""How the files are called; kubeconform takes the version for the group where there is none."""
_KINDS = "x-kubernetes-group-version-kind"
_OPEN = "x-kubernetes-preserve-unknown-fields"
_ANY_NUMBER_OR_TEXT = "x-kubernetes-int-or-string"
_KEPT = ("type", "enum", "required", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems",
         "maxItems", "minProperties", "maxProperties")  # fmt: skip
_OF_EVERY_OBJECT = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}
_NESTED = "#/components/schemas/"


def named(group: str, version: str, kind: str) -> str:
    """The name of the file of a kind."""
    return f"{kind.lower()}_{group or version}_{version}.json"


def of_server(document: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """The kinds of one document of `/openapi/v3`: name of the file and schema."""
    schemas = document.get("components", {}).get("schemas", {})
    for name, schema in schemas.items():
        for kind in schema.get(_KINDS, ()):
            reached = _reached(schemas, name)
            definitions = {each: closed(schemas[each]) for each in sorted(reached)}
            made = {"$ref": f"#/definitions/{name}", "definitions": definitions}
            yield named(kind["group"], kind["version"], kind["kind"]), made


def of_definition(body: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """The kinds of a CustomResourceDefinition."""
    spec = body["spec"]
    for version in spec["versions"]:
        schema = closed(version["schema"]["openAPIV3Schema"])
        schema["properties"] = {**_OF_EVERY_OBJECT, **schema.get("properties", {})}
        yield named(spec["group"], version["name"], spec["names"]["kind"]), schema


def closed(schema: Mapping[str, Any]) -> JsonObject:
    """A schema of OpenAPI as JSON Schema, in which objects have the fields that it names and no other."""
    if schema.get(_ANY_NUMBER_OR_TEXT):
        return {"type": ["integer", "string"]}
    made = {key: schema[key] for key in _KEPT if key in schema}
    if "$ref" in schema:
        made["$ref"] = schema["$ref"].replace(_NESTED, "#/definitions/")
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema:
            made[key] = [closed(each) for each in schema[key]]
    if "items" in schema:
        made["items"] = closed(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        made["additionalProperties"] = closed(schema["additionalProperties"])
    elif "properties" in schema:
        made["properties"] = {name: closed(field) for name, field in schema["properties"].items()}
        # Without a type it is a condition on an object that is described, and closed, elsewhere.
        if schema.get("type") == "object" and not schema.get(_OPEN):
            made["additionalProperties"] = False
    if schema.get("nullable") and isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
    return made


def _reached(schemas: Mapping[str, JsonObject], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(schemas[name])
    return found


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].removeprefix(_NESTED)
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)
