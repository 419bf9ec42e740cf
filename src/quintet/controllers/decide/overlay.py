"""Merges a user's `spec.template` into a generated pod template.

Follows server-side apply for the lists of pods: lists whose items have keys merge item by item, other lists
are replaced. As in a strategic merge patch, `null` removes.
"""

from typing import Any, Final

from quintet.apis.meta import JsonObject

KEYS: Final = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "resourceClaims": ("name",),
    "claims": ("name",),
    "schedulingGates": ("name",),
    "evictionResponders": ("name",),
    "ephemeralContainers": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "protocol"),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
"""The keys of the lists of pods whose items merge, by field."""
_DEFAULTS = {"protocol": "TCP"}


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
    if isinstance(patch, dict):
        # Also without a base, so that no null is left.
        return overlay(base if isinstance(base, dict) else {}, patch)
    if isinstance(patch, list):
        keys, known = KEYS.get(name), base if isinstance(base, list) else []
        if keys is None:
            return [_merge("", None, item) for item in patch]
        return _merge_items(keys, known, patch)
    return patch


def _merge_items(keys: tuple[str, ...], base: list[JsonObject], patch: list[JsonObject]) -> list[JsonObject]:
    changes = {_key(keys, item): item for item in patch}
    kept = [overlay(item, changes.pop(_key(keys, item), {})) for item in base]
    return [*kept, *(overlay({}, item) for item in changes.values())]


def _key(keys: tuple[str, ...], item: JsonObject) -> tuple[Any, ...]:
    return tuple(item.get(key) or _DEFAULTS.get(key) for key in keys)
