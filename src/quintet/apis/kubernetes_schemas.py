"""Schemas of Kubernetes types, converted to structural schemas. Pure.

They are for kinds that embed a Kubernetes type in their CRD (`CustomResource.spec_from`), and for validating
what a free-form field of a CRD leaves open. The source is `kubernetes.json`, an excerpt of the API server's
OpenAPI document without descriptions; `manifests/openapi.py` writes it.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from quintet.apis.meta import JsonObject
from quintet.apis.schema import sort_keywords
from quintet.apis.structural import QUANTITY

SOURCE: Final = Path(__file__).with_name("kubernetes.json")

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
# Keywords that are allowed in a CRD.
_KEPT = ("type", "format", "enum", "required", "x-kubernetes-map-type")
_LIST_KEYS = "x-kubernetes-list-map-keys"
_LIST_TYPE = "x-kubernetes-list-type"

Schemas = Mapping[str, JsonObject]

OF_CRDS: Final[Schemas] = {
    _INT_OR_STRING: {"x-kubernetes-int-or-string": True},
    # Strings, integers and `0.5` are all valid quantities, which no structural schema of a CRD can express.
    _QUANTITY: {"x-kubernetes-preserve-unknown-fields": True},
}
"""The schemas of scalar types in a CRD."""
EXACT: Final[Schemas] = {
    _INT_OR_STRING: {"x-kubernetes-int-or-string": True, "format": "int32"},
    _QUANTITY: QUANTITY,
}
"""The schemas of scalar types for validation, which may say more than a CRD."""


def load_schemas() -> Schemas:
    """Load the schemas from `kubernetes.json`."""
    schemas: dict[str, JsonObject] = json.loads(SOURCE.read_text(encoding="utf-8"))
    return schemas


def structural_schema(schemas: Schemas, name: str, scalars: Schemas = OF_CRDS) -> JsonObject:
    """Return the schema of a type with all references resolved, as a CRD needs it."""
    return scalars[name] if name in scalars else _convert(schemas, schemas[name], scalars)


def own_references(schema: JsonObject) -> Iterator[str]:
    """Return the names of the types that a schema itself refers to, not those of its fields."""
    for part in (schema, *schema.get("allOf", ())):
        if "$ref" in part:
            yield part["$ref"].rpartition("/")[2]


def _convert(schemas: Schemas, schema: JsonObject, scalars: Schemas) -> JsonObject:
    for reference in own_references(schema):
        return structural_schema(schemas, reference, scalars)
    made = {key: schema[key] for key in _KEPT if key in schema}
    if "items" in schema:
        made |= _list(schemas, schema, scalars)
    if "additionalProperties" in schema:
        made["additionalProperties"] = _convert(schemas, schema["additionalProperties"], scalars)
    elif "properties" in schema:
        made["properties"] = {
            name: _optional(_convert(schemas, field, scalars), name in schema.get("required", ()))
            for name, field in schema["properties"].items()
        }
    elif schema["type"] == "object":
        made["x-kubernetes-preserve-unknown-fields"] = True
    return sort_keywords(made)


def _list(schemas: Schemas, schema: JsonObject, scalars: Schemas) -> JsonObject:
    """Return the schema of a list with its merge strategy; optional map keys need their default."""
    made: JsonObject = {_LIST_TYPE: schema.get(_LIST_TYPE, "atomic")}
    item = _convert(schemas, schema["items"], scalars)
    if keys := schema.get(_LIST_KEYS):
        made[_LIST_KEYS] = keys
        source = schemas[next(own_references(schema["items"]))]
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
