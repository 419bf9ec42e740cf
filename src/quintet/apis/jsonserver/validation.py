"""Defaults and validation of JsonServers. Pure functions on undecoded objects.

The controller validates data and pod template again, because an object may have bypassed the webhooks.
"""

import posixpath
from typing import Any

from quintet.apis.casconfig.embedding import embedded_errors
from quintet.apis.fields import (
    METADATA,
    SPEC,
    ErrorType,
    FieldError,
    FieldErrors,
    FieldPath,
    ValidationResult,
)
from quintet.apis.jsonserver import jsonconfig
from quintet.apis.jsonserver.options import option_errors
from quintet.apis.jsonserver.types import FINALIZER, INVALID_CONFIG, INVALID_NAME, INVALID_REPLICAS, Storage
from quintet.apis.meta import JsonObject
from quintet.apis.podtemplate import POD, TEMPLATE, named_items, shape_errors

CONTAINER = "json-server"
COPY_CONTAINER = "copy-config"
CONFIG_VOLUME = "json-config"
DATA_VOLUME = "data"
DATA_PATH = "/data"
OPTIONS_VOLUME = "json-server-options"
OPTIONS_PATH = "/etc/json-server"
SELECTOR_LABEL = "app"

# Users must not choose the ServiceAccount of these pods.
_IDENTITY = ("serviceAccountName", "serviceAccount", "automountServiceAccountToken")
_OUR_VOLUMES = (CONFIG_VOLUME, DATA_VOLUME, OPTIONS_VOLUME)
# Sources of projected volumes that give a pod the identity of a ServiceAccount.
_IDENTITY_SOURCES = ("serviceAccountToken", "podCertificate")
_KEPT_LISTS = ("args", "command", "ports", "volumeMounts")


def default(obj: JsonObject) -> JsonObject:
    """Return the object with its defaults: one replica, and our finalizer."""
    metadata, spec = dict(obj.get("metadata") or {}), dict(obj.get("spec") or {})
    spec.setdefault("replicas", 1)
    finalizers = list(metadata.get("finalizers") or ())
    if FINALIZER not in finalizers:
        metadata["finalizers"] = [*finalizers, FINALIZER]
    return {**obj, "metadata": metadata, "spec": spec}


def validate(obj: JsonObject) -> ValidationResult:
    """Validate an object."""
    errors = FieldErrors()
    name, spec = obj.get("metadata", {}).get("name", ""), obj.get("spec") or {}
    if not name.startswith("app-"):
        errors.invalid(METADATA.child("name"), name, INVALID_NAME)
    replicas = spec.get("replicas")
    if isinstance(replicas, int) and replicas < 0:
        errors.invalid(SPEC.child("replicas"), replicas, INVALID_REPLICAS)
    warnings = _check_config(errors, spec.get("jsonConfig"), spec.get("idField", "id"))
    all_errors = (
        *errors,
        *option_errors(spec),
        *template_errors(spec.get("template") or {}, name),
        *config_errors(spec.get("casConfig")),
    )
    return ValidationResult(all_errors, (*warnings, *_storage_warnings(spec)))


def template_errors(template: Any, name: str) -> list[FieldError]:
    """Return the errors of `spec.template`; no pods are created while there are any."""
    found = shape_errors(template, (CONTAINER, COPY_CONTAINER), _KEPT_LISTS)
    if found:
        return found
    errors = FieldErrors()
    _check_overlay(errors, template, name)
    return list(errors)


def config_errors(config: Any) -> list[FieldError]:
    """Return the errors of `spec.casConfig`; no children are created while there are any."""
    if config is None:
        return []
    path = SPEC.child("casConfig")
    found = embedded_errors(config, path, ("containers", "mainContainer"), _is_our_label)
    if found:
        return found
    errors = FieldErrors()
    for index, policy in enumerate(config["policies"]):
        values = path.child("policies").index(index).child("values")
        for at, sidecar in enumerate(policy["values"].get("sidecars") or ()):
            if sidecar["name"] == CONTAINER:
                _check_main_container(errors, sidecar, values.child("sidecars").index(at))
    return list(errors)


def _is_our_label(key: str) -> bool:
    return key == SELECTOR_LABEL or key.startswith("app.kubernetes.io/")


def _storage_warnings(spec: JsonObject) -> list[str]:
    if spec.get("storage") == Storage.EPHEMERAL and spec.get("replicas", 1) > 1:
        return ["spec.storage: with Ephemeral storage and several replicas, each pod has its own data"]
    return []


def _check_config(errors: FieldErrors, config: Any, id_field: str) -> list[str]:
    """Add the errors of `spec.jsonConfig`; return the warnings."""
    path = SPEC.child("jsonConfig")
    if not isinstance(config, str):
        errors.required(path, f"{INVALID_CONFIG} It must be a string that contains a JSON object.")
        return []
    result = jsonconfig.validate_data(config, id_field)
    for problem in result.errors:
        # The value is not repeated: it may have a mebibyte, and the user knows it.
        errors.found.append(FieldError(path, ErrorType.INVALID, message=f"{INVALID_CONFIG} {problem}"))
    return [f"{path}: {warning}" for warning in result.warnings]


def _check_overlay(errors: FieldErrors, template: JsonObject, name: str) -> None:
    labels = (template.get("metadata") or {}).get("labels") or {}
    if labels.get(SELECTOR_LABEL, name) != name:
        where = TEMPLATE.child("metadata", "labels").key(SELECTOR_LABEL)
        errors.forbidden(where, f"this label selects the pods and must stay '{name}'")
    spec = template.get("spec") or {}
    for field in _IDENTITY:
        if field in spec:
            errors.forbidden(
                POD.child(field), "pods of a JsonServer run without a ServiceAccount of their own"
            )
    for index, volume in named_items(spec, "volumes"):
        where = POD.child("volumes").index(index)
        if volume["name"] in _OUR_VOLUMES:
            errors.forbidden(where, f"the volume name '{volume['name']}' is reserved")
        for source in (volume.get("projected") or {}).get("sources") or ():
            if any(field in source for field in _IDENTITY_SOURCES):
                errors.forbidden(
                    where, "pods of a JsonServer must not mount a ServiceAccount token or a pod certificate"
                )
    for field in ("containers", "initContainers"):
        for index, container in named_items(spec, field):
            if container["name"] in (CONTAINER, COPY_CONTAINER):
                _check_main_container(errors, container, POD.child(field).index(index))


def _check_main_container(errors: FieldErrors, container: JsonObject, path: FieldPath) -> None:
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        if _is_ours(mount.get("mountPath") or "") or mount.get("name") in _OUR_VOLUMES:
            errors.forbidden(
                path.child("volumeMounts").index(index),
                f"{DATA_PATH}, {OPTIONS_PATH} and their volumes are reserved",
            )


def _is_ours(path: str) -> bool:
    """Return whether a mount path is a directory of ours or below it, however it is written."""
    parts = posixpath.normpath(f"/{path}").lstrip("/")
    return f"/{parts}/".startswith((f"{DATA_PATH}/", f"{OPTIONS_PATH}/"))
