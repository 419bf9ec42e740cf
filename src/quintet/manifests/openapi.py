"""Schemas of Kubernetes types, converted to structural schemas for CRDs.

They are for kinds that embed a Kubernetes type (`CustomResource.spec_from`). The source is `kubernetes.json`,
an excerpt of the API server's OpenAPI document without descriptions. To update it from another version:

    kubectl get --raw /openapi/v3/apis/apps/v1 | python -m quintet.manifests.openapi
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from quintet.apis.meta import JsonObject
from quintet.apis.schema import sort_keywords

INPUT = Path(__file__).with_name("kubernetes.json")
ROOTS = ("io.k8s.api.apps.v1.StatefulSetSpec",)

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
# Keywords that are allowed in a CRD.
_KEPT = ("type", "format", "enum", "required", "x-kubernetes-map-type")
_LIST_KEYS = "x-kubernetes-list-map-keys"
_LIST_TYPE = "x-kubernetes-list-type"
# Keywords that our types may add to the schema of a Kubernetes field.
_OURS = (
    "description",
    "default",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "maxItems",
    "pattern",
    "x-kubernetes-validations",
)

Schemas = Mapping[str, JsonObject]


def compact(document: JsonObject) -> dict[str, JsonObject]:
    """Return the schemas that `ROOTS` refer to, without descriptions."""
    all_schemas = document["components"]["schemas"]
    found: dict[str, JsonObject] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = _without_descriptions(all_schemas[name])
            waiting += _references(found[name])
    return dict(sorted(found.items()))


def as_text(schemas: Schemas) -> str:
    """Return the schemas as JSON, one per line, so that a diff between Kubernetes versions is readable."""
    lines = (f"{json.dumps(name)}: {json.dumps(schema, sort_keys=True)}" for name, schema in schemas.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load_schemas() -> Schemas:
    """Load the schemas from `kubernetes.json`."""
    schemas: dict[str, JsonObject] = json.loads(INPUT.read_text(encoding="utf-8"))
    return schemas


def structural_schema(schemas: Schemas, name: str) -> JsonObject:
    """Return the schema of a type with all references resolved, as a CRD needs it."""
    if name == _INT_OR_STRING:
        return {"x-kubernetes-int-or-string": True}
    if name == _QUANTITY:
        # Strings, integers and `0.5` are all valid quantities, which no structural schema can express.
        return {"x-kubernetes-preserve-unknown-fields": True}
    return _convert(schemas, schemas[name])


def _convert(schemas: Schemas, schema: JsonObject) -> JsonObject:
    for reference in _own_references(schema):
        return structural_schema(schemas, reference)
    made = {key: schema[key] for key in _KEPT if key in schema}
    if "items" in schema:
        made |= _list(schemas, schema)
    if "additionalProperties" in schema:
        made["additionalProperties"] = _convert(schemas, schema["additionalProperties"])
    elif "properties" in schema:
        made["properties"] = {
            name: _optional(_convert(schemas, field), name in schema.get("required", ()))
            for name, field in schema["properties"].items()
        }
    elif schema["type"] == "object":
        made["x-kubernetes-preserve-unknown-fields"] = True
    return sort_keywords(made)


def _list(schemas: Schemas, schema: JsonObject) -> JsonObject:
    """Return the schema of a list with its merge strategy; optional map keys need their default."""
    made: JsonObject = {_LIST_TYPE: schema.get(_LIST_TYPE, "atomic")}
    item = _convert(schemas, schema["items"])
    if keys := schema.get(_LIST_KEYS):
        made[_LIST_KEYS] = keys
        source = schemas[next(_own_references(schema["items"]))]
        properties = dict(item["properties"])
        for key in keys:
            if key not in item.get("required", ()):
                properties[key] = sort_keywords(
                    {**properties[key], "default": source["properties"][key]["default"]}
                )
        item = {**item, "properties": properties}
    return {**made, "items": item}


def _optional(schema: JsonObject, required: bool) -> JsonObject:
    """Allow the empty string in an optional enum, which Kubernetes treats as not set."""
    if "enum" in schema and not required and "" not in schema["enum"]:
        return {**schema, "enum": [*schema["enum"], ""]}
    return schema


def refine(theirs: JsonObject, ours: JsonObject) -> JsonObject:
    """Return Kubernetes' schema with the bounds, defaults, rules and descriptions of our type."""
    made = {**theirs, **{key: ours[key] for key in _OURS if key in ours}}
    properties = dict(theirs.get("properties", {}))
    for name, field in ours.get("properties", {}).items():
        properties[name] = refine(properties[name], field)
    if properties:
        made["properties"] = properties
    if "items" in theirs:
        made["items"] = refine(theirs["items"], ours.get("items", {}))
    return sort_keywords(made)


def _without_descriptions(schema: JsonObject) -> JsonObject:
    """Return the schema without descriptions; a property named description stays."""
    made = {key: value for key, value in schema.items() if key != "description"}
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = _without_descriptions(made[key])
    if "properties" in made:
        made["properties"] = {
            name: _without_descriptions(field) for name, field in made["properties"].items()
        }
    return made


def _references(schema: JsonObject) -> Iterator[str]:
    yield from _own_references(schema)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _references(schema[key])
    for field in schema.get("properties", {}).values():
        yield from _references(field)


def _own_references(schema: JsonObject) -> Iterator[str]:
    for part in (schema, *schema.get("allOf", ())):
        if "$ref" in part:
            yield part["$ref"].rpartition("/")[2]


def main() -> int:
    """Read an OpenAPI document from stdin, write `kubernetes.json`."""
    INPUT.write_text(as_text(compact(json.load(sys.stdin))), encoding="utf-8")
    sys.stdout.write(f"wrote {INPUT}\nnext step: make generate\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
