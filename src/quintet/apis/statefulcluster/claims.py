"""Validates claim templates and their changes. Pure."""

from decimal import Decimal
from typing import Any

from quintet.apis import labels, quantity
from quintet.apis.fields import SPEC, FieldErrors, FieldPath
from quintet.apis.meta import JsonObject

TEMPLATES = SPEC.child("volumeClaimTemplates")
_ONLY_ONE = "ReadWriteOncePod"
# Fields that the API server or `kubectl get -o yaml` adds to a claim template and that have no effect.
_IDLE = ("apiVersion", "kind", "status")


def check_claims(errors: FieldErrors, spec: JsonObject) -> None:
    """Add the errors of the claim templates."""
    seen: set[str] = set()
    for index, template in enumerate(spec.get("volumeClaimTemplates") or ()):
        path, metadata = TEMPLATES.index(index), template.get("metadata") or {}
        name = metadata.get("name") or ""
        where = path.child("metadata", "name")
        if not name:
            errors.required(where, "the claims and the volume of the pod are named after it")
        elif not labels.is_dns_label(name):
            errors.invalid(
                where, name, "must be at most 63 lower-case letters, digits and '-': it names a volume"
            )
        elif name in seen:
            errors.duplicate(where, name)
        seen.add(name)
        labels.check_labels(errors, path.child("metadata", "labels"), metadata.get("labels") or {})
        _check_claim(errors, path.child("spec"), template.get("spec") or {})


def _check_claim(errors: FieldErrors, path: FieldPath, claim: JsonObject) -> None:
    modes = claim.get("accessModes") or ()
    if not modes:
        errors.required(path.child("accessModes"), "must name at least one access mode")
    if _ONLY_ONE in modes and len(modes) > 1:
        errors.forbidden(path.child("accessModes"), f"{_ONLY_ONE} must stand alone")
    where = path.child("resources", "requests").key("storage")
    storage = requested_size(claim)
    if storage is None:
        errors.required(where, "must say how large the volume is to be")
        return
    size = quantity.amount(storage)
    if size is None or size <= 0:
        errors.invalid(where, storage, "must be a size such as 10Gi")


def requested_size(claim: JsonObject) -> Any:
    """Return the requested size in the spec of a claim, as written; None if there is none."""
    return ((claim.get("resources") or {}).get("requests") or {}).get("storage")


def check_growth(errors: FieldErrors, spec: JsonObject, old: JsonObject) -> None:
    """Add errors for changes to claim templates that existing claims cannot follow."""
    templates, before = spec.get("volumeClaimTemplates") or (), old.get("volumeClaimTemplates") or ()
    if len(templates) != len(before):
        errors.immutable(
            TEMPLATES, "the replicas that there are would lack a claim; make a new StatefulCluster"
        )
        return
    for index, (new, former) in enumerate(zip(templates, before, strict=True)):
        path = TEMPLATES.index(index)
        if _but_size(new) != _but_size(former):
            errors.immutable(
                path, "only spec.resources.requests.storage can change; for more, make a new StatefulCluster"
            )
        size, was = _size(new), _size(former)
        if size < was:
            where = path.child("spec", "resources", "requests").key("storage")
            errors.invalid(
                where, requested_size(new.get("spec") or {}), "must not shrink", "volumes only grow"
            )


def _size(template: JsonObject) -> Decimal:
    return quantity.amount(requested_size(template.get("spec") or {})) or Decimal(0)


def _but_size(template: JsonObject) -> JsonObject:
    """Return a claim template without its size and without fields that have no effect."""
    made = {key: value for key, value in template.items() if key not in _IDLE}
    claim = dict(made.get("spec") or {})
    resources = dict(claim.get("resources") or {})
    requests = {key: value for key, value in (resources.get("requests") or {}).items() if key != "storage"}
    return {**made, "spec": {**claim, "resources": {**resources, "requests": requests}}}
