"""Validates `spec.template`, a patch of a pod template that the CRD leaves open. Pure.

Whatever passes has the types that the API server expects, so the controllers can merge it and the API server
can decode the result. The API server alone checks the meaning of values.
"""

import functools
from collections.abc import Collection, Iterator
from typing import Any, Final

from quintet.apis.fields import SPEC, FieldError, FieldErrors, FieldPath
from quintet.apis.kubernetes_schemas import EXACT, load_schemas, structural_schema
from quintet.apis.labels import check_labels, is_key
from quintet.apis.meta import JsonObject
from quintet.apis.structural import value_errors

TEMPLATE: Final = SPEC.child("template")
POD: Final = TEMPLATE.child("spec")
_POD_SPEC = "io.k8s.api.core.v1.PodSpec"
# The pod always has items in these, and a patch may only add to them.
_LISTS = ("containers", "initContainers", "volumes")


@functools.cache
def pod_patch_schema() -> JsonObject:
    """Return the schema of a pod spec in which every field may be missing."""
    schema = structural_schema(load_schemas(), _POD_SPEC, EXACT)
    return {name: value for name, value in schema.items() if name != "required"}


def shape_errors(template: Any, containers: Collection[str], kept: Collection[str]) -> list[FieldError]:
    """Return the errors of types, names and removals; `kept` are the lists of `containers` that must stay."""
    if not isinstance(template, dict):
        return _type_error(template, TEMPLATE)
    metadata, spec = template.get("metadata"), template.get("spec")
    for value, path in ((metadata, TEMPLATE.child("metadata")), (spec, POD)):
        if value is not None and not isinstance(value, dict):
            return _type_error(value, path)
    errors = FieldErrors()
    _check_metadata(errors, metadata or {})
    if not spec:
        return list(errors)
    errors.found += value_errors(pod_patch_schema(), spec, POD)
    if not errors.found:
        _check_removals(errors, spec, POD, _LISTS)
        for field in ("containers", "initContainers"):
            for index, container in named_items(spec, field):
                if container["name"] in containers:
                    _check_removals(errors, container, POD.child(field).index(index), kept)
    return list(errors)


def named_items(holder: JsonObject, field: str) -> Iterator[tuple[int, JsonObject]]:
    """Yield index and item of a list of named items; items without a name are errors of their own."""
    items = holder.get(field)
    for index, item in enumerate(items if isinstance(items, list | tuple) else ()):
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            yield index, item


def _type_error(value: Any, path: FieldPath) -> list[FieldError]:
    errors = FieldErrors()
    errors.type_invalid(path, value, "object")
    return list(errors)


def _check_metadata(errors: FieldErrors, metadata: JsonObject) -> None:
    for field in ("labels", "annotations"):
        values, path = metadata.get(field) or {}, TEMPLATE.child("metadata", field)
        if not isinstance(values, dict):
            errors.type_invalid(path, values, "object")
        elif bad := [key for key, value in values.items() if not isinstance(value, str)]:
            errors.type_invalid(path.key(str(bad[0])), values[bad[0]], "string")
        elif field == "labels":
            check_labels(errors, path, values)
        else:
            for key in values:
                # Annotation keys have the syntax of label keys, in any case.
                if not is_key(key.lower()):
                    errors.invalid(path, key, "is not the key of an annotation")


def _check_removals(
    errors: FieldErrors, holder: JsonObject, path: FieldPath, fields: Collection[str]
) -> None:
    for field in fields:
        if field in holder and holder[field] is None:
            errors.forbidden(path.child(field), "null would remove what the controller sets")
