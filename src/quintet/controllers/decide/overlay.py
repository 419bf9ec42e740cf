"""Merges a user's `spec.template` into a generated pod template.

Follows strategic merge for the lists of pods: lists with a merge key merge item by item, other lists are
replaced, `null` removes.
"""

from typing import Any

from quintet.apis.meta import JsonObject

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}


def overlay(base: JsonObject, patch: JsonObject) -> JsonObject:
    """Return `base` merged with `patch`; both stay unchanged."""
    result = dict(base)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merge(name, result.get(name), value)
    return result


def _merge(name: str, base: Any, patch: Any) -> Any:
    if isinstance(base, dict) and isinstance(patch, dict):
        return overlay(base, patch)
    key = _KEYS.get(name)
    if key is not None and isinstance(base, list) and isinstance(patch, list):
        return _merge_items(key, base, patch)
    return patch


def _merge_items(key: str, base: list[JsonObject], patch: list[JsonObject]) -> list[JsonObject]:
    changes = {item.get(key): item for item in patch}
    kept = [overlay(item, changes.pop(item.get(key), {})) for item in base]
    return [*kept, *changes.values()]
