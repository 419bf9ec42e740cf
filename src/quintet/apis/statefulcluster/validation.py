"""Validation of StatefulClusters beyond their CRD schema. Pure functions on undecoded objects.

The API server enforces types, bounds and most immutable fields by itself, even without the webhooks.
"""

import re
from collections.abc import Iterator

import msgspec

from quintet.apis import duration, labels, quantity
from quintet.apis.casconfig.embedding import embedded_errors
from quintet.apis.fields import METADATA, SPEC, FieldErrors, FieldPath, ValidationResult
from quintet.apis.meta import JsonObject
from quintet.apis.statefulcluster.claims import check_claims, check_growth
from quintet.apis.statefulcluster.types import (
    ANNOTATION_PREFIX,
    CLAIM_ADOPTION,
    GIVE_UP_CLAIMS,
    LONGEST_GRACE,
    PLAN_ONLY,
    UNHEALTHY_GRACE,
)

TEMPLATE = SPEC.child("template")
_ANNOTATIONS = METADATA.child("annotations")
_CHOICES = {CLAIM_ADOPTION: ("Always", "Never"), PLAN_ONLY: ("true", "false")}
_KNOWN = (*_CHOICES, UNHEALTHY_GRACE, GIVE_UP_CLAIMS)
_UIDS = re.compile(r"[0-9a-f-]{36}(\s*,\s*[0-9a-f-]{36})*")
_SHORTEST_LOSS = 60.0


def validate(obj: JsonObject, old: JsonObject | None = None) -> ValidationResult:
    """Validate an object; `old` is the stored object that it replaces."""
    errors, spec = FieldErrors(), obj.get("spec") or {}
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    _check_annotations(errors, annotations)
    _check_spec(errors, spec)
    if old is not None:
        check_growth(errors, spec, old.get("spec") or {})
    return ValidationResult(tuple(errors), (*_annotation_warnings(annotations), *_warnings(spec)))


def _check_spec(errors: FieldErrors, spec: JsonObject) -> None:
    service = spec.get("serviceName") or ""
    if service and not labels.is_dns_label(service):
        errors.invalid(
            SPEC.child("serviceName"),
            service,
            "must be the name of a Service: lower-case letters, digits, '-'",
        )
    _check_selector(errors, spec)
    _check_template(errors, spec)
    check_claims(errors, spec)
    _check_data_loss(errors, (spec.get("cluster") or {}).get("dataLoss") or {})
    kept = ((spec.get("cluster") or {}).get("whenScaled") or {}).get("after", "0s")
    if duration.parse_seconds(kept) is None:
        where = SPEC.child("cluster", "whenScaled", "after")
        errors.invalid(where, kept, "must be a duration, such as 12h or 7d")
    config = (spec.get("cluster") or {}).get("casConfig")
    if config is not None:
        template = _labels(spec)
        errors.found += embedded_errors(
            config,
            SPEC.child("cluster", "casConfig"),
            owned=lambda key: key in template or key.startswith(ANNOTATION_PREFIX),
        )


def _check_data_loss(errors: FieldErrors, rule: JsonObject) -> None:
    after = rule.get("after", "10m")
    seconds = duration.parse_seconds(after)
    if seconds is None or seconds < _SHORTEST_LOSS:
        where = SPEC.child("cluster", "dataLoss", "after")
        errors.invalid(where, after, "must be a duration of at least 1m, such as 10m or 1h30m")


def _check_annotations(errors: FieldErrors, annotations: dict[str, str]) -> None:
    for name, allowed in _CHOICES.items():
        if name in annotations and annotations[name] not in allowed:
            errors.not_supported(_ANNOTATIONS.key(name), annotations[name], allowed)
    grace = annotations.get(UNHEALTHY_GRACE, "0")
    if not (grace.isascii() and grace.isdecimal()) or int(grace[:9]) > LONGEST_GRACE or len(grace) > 9:
        errors.invalid(
            _ANNOTATIONS.key(UNHEALTHY_GRACE), grace, f"must be whole seconds from 0 to {LONGEST_GRACE}"
        )

    given_up = annotations.get(GIVE_UP_CLAIMS, "")
    if given_up and _UIDS.fullmatch(given_up.strip()) is None:
        errors.invalid(
            _ANNOTATIONS.key(GIVE_UP_CLAIMS), given_up, "must be uids of claims, separated by commas"
        )


def _annotation_warnings(annotations: dict[str, str]) -> Iterator[str]:
    for name in annotations:
        if name.startswith(ANNOTATION_PREFIX) and name not in _KNOWN:
            yield f"metadata.annotations[{name}]: unknown annotation, ignored; known are {', '.join(_KNOWN)}"


def _check_selector(errors: FieldErrors, spec: JsonObject) -> None:
    path, written = SPEC.child("selector"), spec.get("selector") or {}
    before = len(errors)
    labels.check_selector(errors, path, written)
    template = _labels(spec)
    labels.check_labels(errors, TEMPLATE.child("metadata", "labels"), template)
    for key in template:
        if key.startswith(ANNOTATION_PREFIX):
            errors.forbidden(TEMPLATE.child("metadata", "labels").key(key), "the controller sets this label")
    if not written.get("matchLabels") and not written.get("matchExpressions"):
        errors.invalid(path, written, "must not be empty: an empty selector selects every pod")
    elif len(errors) == before and not labels.matches(msgspec.convert(written, labels.Selector), template):
        errors.invalid(
            TEMPLATE.child("metadata", "labels"),
            template,
            "spec.selector does not match these labels",
            "add the labels of spec.selector to the pod template",
        )


def _labels(spec: JsonObject) -> dict[str, str]:
    metadata = (spec.get("template") or {}).get("metadata") or {}
    return metadata.get("labels") or {}


def _check_template(errors: FieldErrors, spec: JsonObject) -> None:
    pod = (spec.get("template") or {}).get("spec") or {}
    path = TEMPLATE.child("spec")
    if not pod.get("containers"):
        errors.required(path.child("containers"), "a pod needs at least one container")
    volumes = {volume["name"] for volume in pod.get("volumes") or ()} | set(claim_names(spec))
    seen: set[str] = set()
    for where, container in _containers(pod, path):
        if container["name"] in seen:
            errors.duplicate(where.child("name"), container["name"])
        seen.add(container["name"])
        _check_resources(errors, where.child("resources"), container.get("resources") or {})
        for kind in ("volumeMounts", "volumeDevices"):
            for index, mount in enumerate(container.get(kind) or ()):
                if mount["name"] not in volumes:
                    errors.not_found(
                        where.child(kind).index(index).child("name"),
                        mount["name"],
                        "is neither in template.spec.volumes nor in volumeClaimTemplates",
                    )
    _check_resources(errors, path.child("resources"), pod.get("resources") or {})


def _containers(pod: JsonObject, path: FieldPath) -> Iterator[tuple[FieldPath, JsonObject]]:
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(pod.get(kind) or ()):
            yield path.child(kind).index(index), container


def _check_resources(errors: FieldErrors, path: FieldPath, resources: JsonObject) -> None:
    """Check quantities here, because a CRD schema cannot: strings, integers and `0.5` are all valid."""
    for kind in ("limits", "requests"):
        for name, value in (resources.get(kind) or {}).items():
            found = quantity.amount(value)
            if found is None:
                errors.invalid(path.child(kind).key(name), value, "is not a quantity such as 500m, 2 or 1Gi")
            elif found < 0:
                errors.invalid(path.child(kind).key(name), value, "must not be negative")


def claim_names(spec: JsonObject) -> list[str]:
    """Return the names of the claim templates."""
    templates = spec.get("volumeClaimTemplates") or ()
    return [str((template.get("metadata") or {}).get("name", "")) for template in templates]


def _warnings(spec: JsonObject) -> Iterator[str]:
    pod = (spec.get("template") or {}).get("spec") or {}
    if spec.get("ordinals") is not None:
        yield "spec.ordinals: is ignored, because replicas have random names and no ordinals"
    if (spec.get("revisionHistoryLimit") or 0) < 0:
        yield "spec.revisionHistoryLimit: a negative number keeps all revisions"
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    if 0 < spec.get("replicas", 1) <= (rolling.get("partition") or 0):
        yield "spec.updateStrategy.rollingUpdate.partition: covers all replicas: no rollout happens"
    for field in ("hostname", "subdomain"):
        if pod.get(field):
            yield f"spec.template.spec.{field}: is ignored, because every replica gets its own"
    yield from _claim_warnings(spec, pod)


def _claim_warnings(spec: JsonObject, pod: JsonObject) -> Iterator[str]:
    given = {volume.get("name") for volume in pod.get("volumes") or ()}
    mounted = {
        mount.get("name")
        for _, container in _containers(pod, TEMPLATE)
        for mount in (*(container.get("volumeMounts") or ()), *(container.get("volumeDevices") or ()))
    }
    for index, template in enumerate(spec.get("volumeClaimTemplates") or ()):
        if (template.get("spec") or {}).get("volumeName"):
            yield f"spec.volumeClaimTemplates[{index}].spec.volumeName: only one replica can bind that volume"
    for index, name in enumerate(claim_names(spec)):
        if name in given:
            yield f"spec.volumeClaimTemplates[{index}]: replaces the pod template's volume '{name}'"
        if name and name not in mounted:
            yield f"spec.volumeClaimTemplates[{index}]: no container mounts '{name}'"
