"""Updates the schemas of Kubernetes types from another version, and refines them for CRDs.

The schemas are an excerpt of the API server's OpenAPI document without descriptions. To update them:

    kubectl get --raw /openapi/v3/apis/apps/v1 | python -m quintet.manifests.openapi
"""

import json
import sys
from collections.abc import Iterator

from quintet.apis.kubernetes_schemas import SOURCE, Schemas, own_references
from quintet.apis.meta import JsonObject
from quintet.apis.schema import sort_keywords

ROOTS = ("io.k8s.api.apps.v1.StatefulSetSpec",)

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
    yield from own_references(schema)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _references(schema[key])
    for field in schema.get("properties", {}).values():
        yield from _references(field)


def main() -> int:
    """Read an OpenAPI document from stdin, write `kubernetes.json`."""
    SOURCE.write_text(as_text(compact(json.load(sys.stdin))), encoding="utf-8")
    sys.stdout.write(f"wrote {SOURCE}\nnext step: make generate\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
