"""Converts the OpenAPI documents of an API server and our CRDs into JSON schemas for kubeconform.

The schemas are those of the API server under test. Unknown fields are errors, as with
`kubectl apply --validate=strict`.
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


def file_name(group: str, version: str, kind: str) -> str:
    """Return the schema's file name of a kind."""
    return f"{kind.lower()}_{group or version}_{version}.json"


def schemas_from_openapi(document: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Yield file name and schema of each kind in a document of `/openapi/v3`."""
    schemas = document.get("components", {}).get("schemas", {})
    for name, schema in schemas.items():
        for kind in schema.get(_KINDS, ()):
            reached = _find_reachable(schemas, name)
            definitions = {each: close_schema(schemas[each]) for each in sorted(reached)}
            made = {"$ref": f"#/definitions/{name}", "definitions": definitions}
            yield file_name(kind["group"], kind["version"], kind["kind"]), made


def schemas_from_crd(body: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Yield file name and schema of each version of a CRD."""
    spec = body["spec"]
    for version in spec["versions"]:
        schema = close_schema(version["schema"]["openAPIV3Schema"])
        schema["properties"] = {**_OF_EVERY_OBJECT, **schema.get("properties", {})}
        yield file_name(spec["group"], version["name"], spec["names"]["kind"]), schema


def close_schema(schema: Mapping[str, Any]) -> JsonObject:
    """Convert an OpenAPI schema into a JSON schema that forbids unknown fields."""
    if schema.get(_ANY_NUMBER_OR_TEXT):
        return {"type": ["integer", "string"]}
    made = {key: schema[key] for key in _KEPT if key in schema}
    if "$ref" in schema:
        made["$ref"] = schema["$ref"].replace(_NESTED, "#/definitions/")
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema:
            made[key] = [close_schema(each) for each in schema[key]]
    if "items" in schema:
        made["items"] = close_schema(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        made["additionalProperties"] = close_schema(schema["additionalProperties"])
    elif "properties" in schema:
        made["properties"] = {name: close_schema(field) for name, field in schema["properties"].items()}
        # Without a type it is a condition on an object that is described, and closed, elsewhere.
        if schema.get("type") == "object" and not schema.get(_OPEN):
            made["additionalProperties"] = False
    if schema.get("nullable") and isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
    return made


def _find_reachable(schemas: Mapping[str, JsonObject], start: str) -> set[str]:
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
