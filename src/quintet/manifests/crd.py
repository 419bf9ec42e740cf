"""CustomResourceDefinitions of declared kinds."""

import msgspec

from quintet.apis.kubernetes_schemas import load_schemas, structural_schema
from quintet.apis.markers import FREE_FORM
from quintet.apis.meta import JsonObject
from quintet.apis.resources import Column, CustomResource
from quintet.apis.schema import add_rules, sort_keywords, struct_schema
from quintet.manifests.openapi import refine

MOST_BYTES = 256 * 1024
"""The limit of annotations, in which `kubectl apply` keeps a copy of the object."""


def size_as_annotation(crd: JsonObject) -> int:
    """Return the bytes of the copy that `kubectl apply` keeps: JSON without indentation."""
    return len(msgspec.json.encode(crd))


TYPE_META: JsonObject = {
    "apiVersion": {
        "description": "The API group and version of this object.",
        "type": "string",
    },
    "kind": {"description": "The kind of this object.", "type": "string"},
    "metadata": {"type": "object"},
}


def custom_resource_definition(declared: CustomResource) -> JsonObject:
    """Return the CustomResourceDefinition of a kind."""
    resource = declared.resource
    metadata: JsonObject = {"name": resource.qualified}
    if declared.labels:
        metadata["labels"] = dict(declared.labels)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": resource.group,
            "names": _names(declared),
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [_version(declared)],
        },
    }


def object_schema(declared: CustomResource) -> JsonObject:
    """Return the schema of a whole object, including apiVersion, kind and metadata."""
    schema = struct_schema(declared.type)
    if declared.spec_from:
        schema["properties"]["spec"] = _extend(
            structural_schema(load_schemas(), declared.spec_from), schema["properties"]["spec"]
        )
    for path, name in declared.parts_from:
        _put(schema, path, structural_schema(load_schemas(), name))
    schema["properties"] = TYPE_META | {
        name: child for name, child in schema["properties"].items() if name not in TYPE_META
    }
    add_rules(schema, declared.rules)
    return sort_keywords(schema)


def _extend(theirs: JsonObject, ours: JsonObject) -> JsonObject:
    """Return Kubernetes' schema of a spec with our own fields added."""
    own = {name: field for name, field in ours["properties"].items() if name not in theirs["properties"]}
    shared = {name: field for name, field in ours["properties"].items() if name not in own}
    made = refine(theirs, {**ours, "properties": shared})
    brief = {name: _shorten_descriptions(field, described=2) for name, field in own.items()}
    return sort_keywords({**made, "properties": {**made["properties"], **brief}})


def _shorten_descriptions(schema: JsonObject, described: int) -> JsonObject:
    """Return the schema with descriptions on its first levels only, to limit the size of the CRD."""
    made = {key: value for key, value in schema.items() if key != "description" or described > 0}
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = _shorten_descriptions(made[key], described - 1)
    if "properties" in made:
        made["properties"] = {
            name: _shorten_descriptions(field, described - 1) for name, field in made["properties"].items()
        }
    return made


def _put(schema: JsonObject, path: str, theirs: JsonObject) -> None:
    """Replace one part of a schema by the schema of a Kubernetes type, refined by ours."""
    *parents, last = [step for name in path.split(".") for step in _steps(name)]
    for step in parents:
        schema = schema["items"] if step == "items" else schema["properties"][step]
    holder = schema if last == "items" else schema["properties"]
    ours = {key: value for key, value in holder[last].items() if key not in FREE_FORM.schema}
    holder[last] = refine(theirs, ours)


def _steps(name: str) -> list[str]:
    return [name.removesuffix("[]"), "items"] if name.endswith("[]") else [name]


def _names(declared: CustomResource) -> JsonObject:
    resource = declared.resource
    names: JsonObject = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
    }
    if declared.short_names:
        names["shortNames"] = list(declared.short_names)
    if declared.categories:
        names["categories"] = list(declared.categories)
    return names


def _version(declared: CustomResource) -> JsonObject:
    version: JsonObject = {"name": declared.resource.version, "served": True, "storage": True}
    if subresources := _subresources(declared):
        version["subresources"] = subresources
    version["additionalPrinterColumns"] = [_column(column) for column in declared.columns]
    if declared.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in declared.selectable]
    version["schema"] = {"openAPIV3Schema": object_schema(declared)}
    return version


def _subresources(declared: CustomResource) -> JsonObject:
    found: JsonObject = {"status": {}} if declared.status else {}
    if scale := declared.scale:
        found["scale"] = {
            "specReplicasPath": scale.spec_replicas,
            "statusReplicasPath": scale.status_replicas,
        }
        if scale.selector:
            found["scale"]["labelSelectorPath"] = scale.selector
    return found


def _column(column: Column) -> JsonObject:
    entry: JsonObject = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        entry["description"] = column.description
    if column.wide:
        entry["priority"] = 1
    return entry
