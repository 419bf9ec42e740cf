"""Defaults, mistakes and warnings of a JsonServer as it was written.

Pure; called by the webhooks. The controller asks again about data and template, because
an object may have come past the webhooks. They take the object as it came over the wire,
because a mistake may be that it does not fit the types.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from quintet.apis.casconfig.embedding import embedded_errors
from quintet.apis.fields import METADATA, SPEC, FieldError, FieldErrors, FieldPath, Kind
from quintet.apis.jsonserver import jsonconfig
from quintet.apis.jsonserver.types import FINALIZER, INVALID_CONFIG, INVALID_NAME, INVALID_REPLICAS, Storage
from quintet.apis.meta import JsonObject

CONTAINER = "json-server"
CONFIG_VOLUME = "json-config"
DATA_VOLUME = "data"
DATA_PATH = "/data"
SELECTOR_LABEL = "app"

# Who these pods are to the API server is decided here, not by whoever writes a JsonServer.
_IDENTITY = ("serviceAccountName", "serviceAccount", "automountServiceAccountToken")
_OUR_VOLUMES = (CONFIG_VOLUME, DATA_VOLUME)


def default(obj: JsonObject) -> JsonObject:
    """The object as it is stored when somebody creates it: one replica, and held by our finalizer."""
    metadata, spec = dict(obj.get("metadata") or {}), dict(obj.get("spec") or {})
    spec.setdefault("replicas", 1)
    finalizers = list(metadata.get("finalizers") or ())
    if FINALIZER not in finalizers:
        metadata["finalizers"] = [*finalizers, FINALIZER]
    return {**obj, "metadata": metadata, "spec": spec}


class Judgement(NamedTuple):
    """What is to be said about an object."""

    errors: tuple[FieldError, ...]
    """All mistakes at once."""
    warnings: tuple[str, ...]
    """What is allowed, but probably not meant."""


def judge(obj: JsonObject) -> Judgement:
    """Look at an object as it was written."""
    errors = FieldErrors()
    name, spec = obj.get("metadata", {}).get("name", ""), obj.get("spec") or {}
    if not name.startswith("app-"):
        errors.invalid(METADATA.child("name"), name, INVALID_NAME)
    replicas = spec.get("replicas")
    if isinstance(replicas, int) and replicas < 0:
        errors.invalid(SPEC.child("replicas"), replicas, INVALID_REPLICAS)
    doubts = _check_config(errors, spec.get("jsonConfig"))
    found = (
        *errors,
        *template_errors(spec.get("template") or {}, name),
        *config_errors(spec.get("casConfig")),
    )
    return Judgement(found, (*doubts, *_storage_warnings(spec)))


def template_errors(template: JsonObject, name: str) -> list[FieldError]:
    """What of an overlay must not be; nothing of the pods is made while there is any."""
    errors = FieldErrors()
    _check_overlay(errors, template, name)
    return list(errors)


def config_errors(config: Any) -> list[FieldError]:
    """What of an embedded config must not be; nothing of the children is made while there is any."""
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
        return ["spec.storage: with Ephemeral storage and several replicas, every pod keeps data of its own"]
    return []


def _check_config(errors: FieldErrors, config: Any) -> list[str]:
    """Note what is wrong with the data; returns what is doubtful about it."""
    path = SPEC.child("jsonConfig")
    if not isinstance(config, str):
        errors.required(path, f"{INVALID_CONFIG} It must be a text that holds a JSON object.")
        return []
    found = jsonconfig.examine(config)
    if found.problem is not None:
        # The value itself is not repeated: it may be a mebibyte, and its author knows it.
        errors.found.append(FieldError(path, Kind.INVALID, message=f"{INVALID_CONFIG} {found.problem}"))
    return [f"{path}: {doubt}" for doubt in found.doubts]


def _check_overlay(errors: FieldErrors, template: JsonObject, name: str) -> None:
    path = SPEC.child("template")
    labels = (template.get("metadata") or {}).get("labels") or {}
    if labels.get(SELECTOR_LABEL, name) != name:
        where = path.child("metadata", "labels").key(SELECTOR_LABEL)
        errors.forbidden(where, f"this label selects the pods and must stay '{name}'")
    spec, where = template.get("spec") or {}, path.child("spec")
    for field in _IDENTITY:
        if field in spec:
            errors.forbidden(where.child(field), "pods of a JsonServer have no identity of their own")
    for index, volume in _named(errors, spec, where, "volumes"):
        if volume.get("name") in _OUR_VOLUMES:
            errors.forbidden(where.child("volumes").index(index), f"the volume '{volume['name']}' is taken")
        if any("serviceAccountToken" in source for source in _objects(volume.get("projected"), "sources")):
            errors.forbidden(where.child("volumes").index(index), "pods of a JsonServer get no token")
    for index, container in _named(errors, spec, where, "containers"):
        if container.get("name") == CONTAINER:
            _check_main_container(errors, container, where.child("containers").index(index))


def _check_main_container(errors: FieldErrors, container: JsonObject, path: FieldPath) -> None:
    for index, mount in enumerate(_objects(container, "volumeMounts")):
        if mount.get("mountPath") == DATA_PATH or mount.get("name") in _OUR_VOLUMES:
            errors.forbidden(
                path.child("volumeMounts").index(index), f"the data is mounted at {DATA_PATH} and must stay"
            )


def _objects(holder: Any, field: str) -> list[JsonObject]:
    """A list of objects in what may be anything; what is none of them the API server refuses in the pods."""
    items = holder.get(field) if isinstance(holder, dict) else None
    return [item if isinstance(item, dict) else {} for item in items] if isinstance(items, list) else []


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
