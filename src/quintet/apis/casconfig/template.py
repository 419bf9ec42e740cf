"""Where the objects of a kind have their pod, found from the schema of the kind. Pure.

The schema is what the API server publishes: `/openapi/v3/apis/<group>/<version>`. A kind of somebody else
that has a pod template in the usual place is found the same way as a Deployment.
"""

from typing import Any, Final

from quintet.apis.casconfig.places import Path
from quintet.apis.meta import JsonObject, Resource

POD: Final[Path] = ("spec",)
"""Of an object that is itself a pod: most of it cannot be changed once it runs."""
PLACES: Final[tuple[Path, ...]] = (
    ("spec", "template", "spec"),
    ("spec", "jobTemplate", "spec", "template", "spec"),
    POD,
)
_GVK = "x-kubernetes-group-version-kind"


def pod_place(document: JsonObject, resource: Resource) -> Path | None:
    """Where objects of a kind have the spec of their pods; None if they have none."""
    schemas = (document.get("components") or {}).get("schemas") or {}
    whole = next((schema for schema in schemas.values() if _is_of(schema, resource)), None)
    if whole is None:
        return None
    return next((place for place in PLACES if _is_pod(schemas, _at(schemas, whole, place))), None)


def describes(document: JsonObject, resource: Resource) -> bool:
    """Whether a document has the schema of a kind; that of a new kind follows its definition by seconds."""
    schemas = (document.get("components") or {}).get("schemas") or {}
    return any(_is_of(schema, resource) for schema in schemas.values())


def service_account(obj: JsonObject, pod: Path | None) -> str | None:
    """The ServiceAccount that the pods of an object run as; None if it has no pods."""
    spec = _value(obj, pod) if pod is not None else None
    if not isinstance(spec, dict):
        return None
    return str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "default")


def pod_annotations(obj: JsonObject, pod: Path) -> dict[str, str]:
    """The annotations of the pods of an object."""
    around = _value(obj, pod[:-1])
    metadata = around.get("metadata") if isinstance(around, dict) else None
    return (metadata or {}).get("annotations") or {}


def _value(obj: Any, path: Path) -> Any:
    for step in path:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def _is_of(schema: JsonObject, resource: Resource) -> bool:
    return any(
        (each.get("group", ""), each.get("version"), each.get("kind")) == (
            resource.group, resource.version, resource.kind
        )
        for each in schema.get(_GVK) or ()
    )  # fmt: skip


def _at(schemas: JsonObject, schema: JsonObject, path: Path) -> JsonObject:
    for step in path:
        schema = _property(schemas, schema, step)
    return schema


def _property(schemas: JsonObject, schema: JsonObject, name: str) -> JsonObject:
    found: JsonObject = (_resolve_reference(schemas, schema).get("properties") or {}).get(name) or {}
    return _resolve_reference(schemas, found)


def _resolve_reference(schemas: JsonObject, schema: JsonObject) -> JsonObject:
    """A schema with the definition that it refers to in its place."""
    for part in (schema, *(schema.get("allOf") or ())):
        if "$ref" in part:
            return schemas.get(part["$ref"].rpartition("/")[2]) or {}
    return schema


def _is_pod(schemas: JsonObject, schema: JsonObject) -> bool:
    containers = _property(schemas, schema, "containers")
    if containers.get("type") != "array":
        return False
    item = _resolve_reference(schemas, containers.get("items") or {})
    return {"name", "image"} <= set(item.get("properties") or {})
