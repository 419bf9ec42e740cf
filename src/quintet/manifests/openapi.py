"""Schemas of Kubernetes' own types, made fit for a CustomResourceDefinition.

Called by `crd` for a kind whose spec is that of another type (`CustomResource.spec_from`). The input is
`kubernetes.json`: what the API server's OpenAPI document says of those types, without its prose. To
take it from another version:

    kubectl get --raw /openapi/v3/apis/apps/v1 | python -m quintet.manifests.openapi
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from quintet.apis.meta import JsonObject
from quintet.apis.schema import ordered

INPUT = Path(__file__).with_name("kubernetes.json")
ROOTS = ("io.k8s.api.apps.v1.StatefulSetSpec",)

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
# What says something about a value and may stand in a CustomResourceDefinition.
_KEPT = ("type", "format", "enum", "required", "x-kubernetes-map-type")
_LIST_KEYS = "x-kubernetes-list-map-keys"
_LIST_TYPE = "x-kubernetes-list-type"
# What a type of ours says more exactly about a field that Kubernetes has shaped.
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

Definitions = Mapping[str, JsonObject]


def compact(document: JsonObject) -> dict[str, JsonObject]:
    """The definitions of a document that the roots lead to, without descriptions."""
    definitions = document["components"]["schemas"]
    found: dict[str, JsonObject] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = _without_prose(definitions[name])
            waiting += _references(found[name])
    return dict(sorted(found.items()))


def as_text(definitions: Definitions) -> str:
    """One definition a line, so that a new version of Kubernetes can be reviewed as a difference."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(schema, sort_keys=True)}" for name, schema in definitions.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def committed() -> Definitions:
    """The definitions that the generated files are made from."""
    definitions: dict[str, JsonObject] = json.loads(INPUT.read_text(encoding="utf-8"))
    return definitions


def structural(definitions: Definitions, name: str) -> JsonObject:
    """The schema of a type with everything in it written out, as a definition must have it."""
    if name == _INT_OR_STRING:
        return {"x-kubernetes-int-or-string": True}
    if name == _QUANTITY:
        # Text, integers and `0.5` are all quantities, and no structural schema says so.
        return {"x-kubernetes-preserve-unknown-fields": True}
    return _structural(definitions, definitions[name])


def _structural(definitions: Definitions, schema: JsonObject) -> JsonObject:
    for reference in _own_references(schema):
        return structural(definitions, reference)
    made = {key: schema[key] for key in _KEPT if key in schema}
    if "items" in schema:
        made |= _list(definitions, schema)
    if "additionalProperties" in schema:
        made["additionalProperties"] = _structural(definitions, schema["additionalProperties"])
    elif "properties" in schema:
        made["properties"] = {
            name: _optional(_structural(definitions, field), name in schema.get("required", ()))
            for name, field in schema["properties"].items()
        }
    elif schema["type"] == "object":
        made["x-kubernetes-preserve-unknown-fields"] = True
    return ordered(made)


def _list(definitions: Definitions, schema: JsonObject) -> JsonObject:
    """A list keeps how it is merged; a key that may be left out needs its default for that."""
    made: JsonObject = {_LIST_TYPE: schema.get(_LIST_TYPE, "atomic")}
    item = _structural(definitions, schema["items"])
    if keys := schema.get(_LIST_KEYS):
        made[_LIST_KEYS] = keys
        source = definitions[next(_own_references(schema["items"]))]
        properties = dict(item["properties"])
        for key in keys:
            if key not in item.get("required", ()):
                properties[key] = ordered(
                    {**properties[key], "default": source["properties"][key]["default"]}
                )
        item = {**item, "properties": properties}
    return {**made, "items": item}


def _optional(schema: JsonObject, required: bool) -> JsonObject:
    """To Kubernetes, an empty text in an optional field is the same as none."""
    if "enum" in schema and not required and "" not in schema["enum"]:
        return {**schema, "enum": [*schema["enum"], ""]}
    return schema


def refined(theirs: JsonObject, ours: JsonObject) -> JsonObject:
    """Kubernetes' schema with the bounds, defaults, rules and descriptions that our type adds to it."""
    made = {**theirs, **{key: ours[key] for key in _OURS if key in ours}}
    properties = dict(theirs.get("properties", {}))
    for name, field in ours.get("properties", {}).items():
        properties[name] = refined(properties[name], field)
    if properties:
        made["properties"] = properties
    if "items" in theirs:
        made["items"] = refined(theirs["items"], ours.get("items", {}))
    return ordered(made)


def _without_prose(schema: JsonObject) -> JsonObject:
    """Without descriptions; a field that is called so stays."""
    made = {key: value for key, value in schema.items() if key != "description"}
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = _without_prose(made[key])
    if "properties" in made:
        made["properties"] = {name: _without_prose(field) for name, field in made["properties"].items()}
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
    """Read a document, write the input of the generator."""
    INPUT.write_text(as_text(compact(json.load(sys.stdin))), encoding="utf-8")
    sys.stdout.write(f"wrote {INPUT}\nnext step: make generate\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
