"""Defaults, aliases, mistakes and warnings of a Checkup as it was written.

Pure; called by the webhooks. The controller asks `spec_errors` again, because an object may have
come past the webhooks. Objects are taken as they came over the wire, because a mistake may be
that they do not fit the types.
"""

from collections.abc import Iterator
from typing import Any

from quintet.apis.checkup import params
from quintet.apis.checkup.contract import CONTAINER, VARIABLES
from quintet.apis.checkup.types import FINALIZER, LONGEST_TIMEOUT, TIMEOUT_RULE
from quintet.apis.fields import SPEC, FieldError, FieldErrors, FieldPath
from quintet.apis.meta import JsonObject

TEMPLATE = SPEC.child("template")
# These decide who the pod is, or when it ends, and have fields of their own.
_OWN_FIELDS = {
    "serviceAccountName": "spec.serviceAccountName says who the checkup runs as",
    "serviceAccount": "spec.serviceAccountName says who the checkup runs as",
    "automountServiceAccountToken": "without its token the checkup cannot write its results",
    "restartPolicy": "a checkup runs once",
    "activeDeadlineSeconds": "spec.timeoutSeconds says how long the checkup may run",
    "terminationGracePeriodSeconds": "a checkup that is stopped has five seconds",
}


def default(obj: JsonObject, *, created: bool) -> JsonObject:
    """The object as it is stored: without old names and, when it is new, held by our finalizer."""
    metadata, spec = dict(obj.get("metadata") or {}), dict(obj.get("spec") or {})
    if _renames(obj):
        spec["timeoutSeconds"] = spec.pop("timeout")
    if created:
        finalizers = list(metadata.get("finalizers") or ())
        if FINALIZER not in finalizers:
            metadata["finalizers"] = [*finalizers, FINALIZER]
    return {**obj, "metadata": metadata, "spec": spec}


def old_names(obj: JsonObject) -> tuple[str, ...]:
    """Warnings about names that still work."""
    if _renames(obj):
        return ("spec.timeout is an old name and was rewritten: use spec.timeoutSeconds",)
    return ()


def _renames(obj: JsonObject) -> bool:
    spec = obj.get("spec") or {}
    if "timeout" not in spec:
        return False
    if spec.get("timeoutSeconds") is not None:
        return bool(spec["timeoutSeconds"] == spec["timeout"])
    # One that came past the webhooks and has started keeps its spec, or it could not even be labelled.
    return not (obj.get("status") or {}).get("startTime")


def spec_errors(spec: JsonObject) -> list[FieldError]:
    """All mistakes of a spec; nothing is made while there is any."""
    errors = FieldErrors()
    for name in ("image", "serviceAccountName"):
        if not isinstance(spec.get(name), str) or not spec[name].strip():
            errors.required(SPEC.child(name))
    _check_timeout(spec, errors)
    values, wrong = params.parse(spec.get("params"))
    errors.found += wrong
    _check_template(spec.get("template") or {}, {params.variable(name) for name in values}, errors)
    return list(errors)


def _check_timeout(spec: JsonObject, errors: FieldErrors) -> None:
    name = "timeoutSeconds" if "timeoutSeconds" in spec else "timeout"
    given = spec.get(name)
    if given is None:
        errors.required(SPEC.child("timeoutSeconds"), TIMEOUT_RULE)
    elif not _is_timeout(given):
        errors.invalid(SPEC.child(name), given, TIMEOUT_RULE)
    elif spec.get("timeout") not in (None, given):
        errors.forbidden(SPEC.child("timeout"), "it is the old name of timeoutSeconds: give one of them only")


def _is_timeout(given: Any) -> bool:
    if isinstance(given, str):
        return given.isascii() and given.isdigit() and given[0] != "0" and _is_timeout(int(given[:9]))
    return isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= LONGEST_TIMEOUT


def _check_template(template: JsonObject, variables: set[str], errors: FieldErrors) -> None:
    spec, where = template.get("spec") or {}, TEMPLATE.child("spec")
    for name, why in _OWN_FIELDS.items():
        if name in spec:
            errors.forbidden(where.child(name), why)
    for name in ("initContainers", "volumes"):
        for _ in _named(errors, spec, where, name):
            pass
    for index, container in _named(errors, spec, where, "containers"):
        if container["name"] == CONTAINER:
            _check_container(container, where.child("containers").index(index), variables, errors)


def _check_container(
    container: JsonObject, path: FieldPath, variables: set[str], errors: FieldErrors
) -> None:
    if "image" in container:
        errors.forbidden(path.child("image"), "spec.image says which image the checkup is")
    for index, item in _named(errors, container, path, "env"):
        if item["name"] in VARIABLES or item["name"] in variables:
            where = path.child("env").index(index).child("name")
            errors.forbidden(where, f"the variable {item['name']} is set for the checkup already")


def _named(
    errors: FieldErrors, spec: JsonObject, path: FieldPath, field: str
) -> Iterator[tuple[int, JsonObject]]:
    """The items of a list that merges by name; items without one cannot be merged."""
    items = spec.get(field) or ()
    if not isinstance(items, list | tuple):
        errors.type_invalid(path.child(field), items, "list")
        return
    for index, item in enumerate(items):
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            errors.required(path.child(field).index(index).child("name"), "items merge by their name")
        else:
            yield index, item
