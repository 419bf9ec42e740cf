"""Whether a value is still the one that was written, after the API server stored it.

The server fills in defaults of containers, writes quantities its own way (`1000m` becomes `1`) and drops
what is empty. None of that is somebody's edit. Defaults that Kubernetes gives to pod templates do not
grow any more: a new one would restart every pod of a cluster at its upgrade. Pure.
"""

from decimal import ROUND_CEILING, Decimal
from typing import Any, Final

from quintet.apis.casconfig.places import ABSENT, CONTAINER_LISTS, Path, names_item
from quintet.apis.meta import JsonObject
from quintet.apis.quantity import amount

_MILLI: Final = Decimal("0.001")
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_DEFAULTS: Final[dict[str, JsonObject]] = {
    "container": {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"},
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
    "httpGet": {"path": "/", "scheme": "HTTP"},
    "fieldRef": {"apiVersion": "v1"},
    "resourceFieldRef": {"divisor": "0"},
    "ports": {"protocol": "TCP"},
}
_QUANTITIES: Final = ("limits", "requests")
# Where Kubernetes keeps no difference between zero and nothing.
_ZERO_IS_NOTHING: Final = frozenset(
    {"readOnly", "stdin", "stdinOnce", "tty", "hostPort", "initialDelaySeconds", *_PROBE}
)


def same(path: Path, one: Any, other: Any) -> bool:
    """Whether two values at a (relative) path mean the same to Kubernetes."""
    if one is ABSENT or other is ABSENT:
        return one is other
    name = _name(path)
    return equal(one, other) or equal(_canonical(name, one), _canonical(name, other))


def canonical(path: Path, value: JsonObject) -> JsonObject:
    """Return a map at a (relative) path with the defaults of the server, and without what is empty."""
    return _canonical_object(_name(path), value)


def _name(path: Path) -> str:
    """Which defaults a value at a path gets."""
    if path[0] not in CONTAINER_LISTS:
        return ""
    if len(path) == 2:
        return "container"
    if names_item(path):
        return path[2]
    return "quantity" if len(path) > 3 and path[-2] in _QUANTITIES else path[-1]


def _canonical(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return _canonical_object(name, value)
    if isinstance(value, list):
        return [_canonical(name, item) for item in value]
    if name == "quantity":
        found = amount(value)
        return value if found is None else found.quantize(_MILLI, ROUND_CEILING)
    return value


def _canonical_object(name: str, value: JsonObject) -> JsonObject:
    inner = "quantity" if name in _QUANTITIES else None
    found = {
        key: canonical
        for key, item in value.items()
        if not _is_nothing(key, canonical := _canonical(_inside(inner, name, key), item))
    }
    defaults = dict(_DEFAULTS.get(name, {}))
    if name == "container" and isinstance(value.get("image"), str):
        defaults["imagePullPolicy"] = _pull_policy(value["image"])
    return {**{key: _canonical(_inside(inner, name, key), item) for key, item in defaults.items()}, **found}


def _inside(inner: str | None, name: str, key: str) -> str:
    return inner or ("quantity" if (name, key) == ("resourceFieldRef", "divisor") else key)


def _is_nothing(key: str, value: Any) -> bool:
    if value is None or value in ("", [], {}):
        return True
    return key in _ZERO_IS_NOTHING and not value


def _pull_policy(image: str) -> str:
    # As in Kubernetes: `latest` is always pulled, even next to a digest; without both it is the default.
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"


def equal(one: Any, other: Any) -> bool:
    """Equality as JSON has it: to Python alone, `1` and `true` are the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)
