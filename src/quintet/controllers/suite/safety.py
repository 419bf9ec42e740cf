"""Whether a definition may be changed while objects of it are there. Pure.

A change is unsafe if an object that was right before could be wrong after it, or could lose something:
a version or field is gone, a bound is tighter, a rule or a required field is new, a default is another.
Loosening is always safe. The same questions are asked by the second generation of OLM.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final

from quintet.apis.meta import JsonObject

_UPPER: Final = ("maximum", "maxLength", "maxItems", "maxProperties")
_LOWER: Final = ("minimum", "minLength", "minItems", "minProperties")
# A new value of these cannot be compared with the old one, so any is taken for tighter.
_EXACT: Final = ("pattern", "format", "multipleOf", "exclusiveMinimum", "exclusiveMaximum", "uniqueItems")
_SHAPE: Final = (
    "type",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-embedded-resource",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
)
_KEEPS: Final = "x-kubernetes-preserve-unknown-fields"
_RULES: Final = "x-kubernetes-validations"


def unsafe_changes(old: JsonObject, new: JsonObject) -> list[str]:
    """What is unsafe about putting one definition in the place of another, each as `path: what`."""
    return [*_frame(old["spec"], new["spec"]), *_versions(old["spec"], new["spec"])]


def _frame(old: JsonObject, new: JsonObject) -> Iterator[str]:
    for name in ("group", "scope"):
        if old[name] != new[name]:
            yield f"spec.{name}: changes from {old[name]} to {new[name]}"
    for name in ("kind", "plural"):
        if old["names"][name] != new["names"][name]:
            yield f"spec.names.{name}: changes from {old['names'][name]} to {new['names'][name]}"


def _versions(old: JsonObject, new: JsonObject) -> Iterator[str]:
    offered = {version["name"]: version for version in new["versions"]}
    for version in old["versions"]:
        name, place = version["name"], f"versions[{version['name']}]"
        if name not in offered:
            yield f"{place}: is removed"
            continue
        if version["served"] and not offered[name]["served"]:
            yield f"{place}: is no longer served"
        yield from _served(version, offered[name], place)


def _served(old: JsonObject, new: JsonObject, place: str) -> Iterator[str]:
    for name in old.get("subresources", {}):
        if name not in new.get("subresources", {}):
            yield f"{place}.subresources.{name}: is removed"
    selectable = {each["jsonPath"] for each in new.get("selectableFields", ())}
    for each in old.get("selectableFields", ()):
        if each["jsonPath"] not in selectable:
            yield f"{place}.selectableFields: {each['jsonPath']} is removed"
    before, after = (version["schema"]["openAPIV3Schema"] for version in (old, new))
    yield from (f"{place}.{finding}" for finding in _schema(before, after, "schema"))


_Check = Callable[[JsonObject, JsonObject, str], Iterable[str]]


def _schema(old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
    yield from chain.from_iterable(check(old, new, path) for check in _CHECKS)
    for name, child in old.get("properties", {}).items():
        if name in new.get("properties", {}):
            yield from _schema(child, new["properties"][name], f"{path}.{name}")
    for name, mark in (("items", "[]"), ("additionalProperties", "[*]")):
        before, after = old.get(name), new.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _schema(before, after, f"{path}{mark}")


def _shape(old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
    for name in _SHAPE:
        if old.get(name) != new.get(name):
            yield f"{path}: {name} changes from {_said(old.get(name))} to {_said(new.get(name))}"
    if old.get("nullable") and not new.get("nullable"):
        yield f"{path}: null is no longer allowed"


def _fields(old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
    keeps = new.get(_KEEPS) or new.get("additionalProperties")
    if not keeps:
        for name in old.get("properties", {}):
            if name not in new.get("properties", {}):
                yield f"{path}.{name}: the field is removed"
        if old.get(_KEEPS) or old.get("additionalProperties"):
            yield f"{path}: fields that it does not name are no longer kept"
    for name in new.get("required", ()):
        if name not in old.get("required", ()) and "default" not in new.get("properties", {}).get(name, {}):
            yield f"{path}.{name}: the field is now required"


def _bounds(old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
    for names, tighter in ((_UPPER, _less), (_LOWER, _more)):
        for name in names:
            if name in new and (name not in old or tighter(new[name], old[name])):
                yield f"{path}: {name} is tightened from {_said(old.get(name))} to {new[name]}"
    for name in _EXACT:
        if new.get(name) and new[name] != old.get(name):
            yield f"{path}: {name} is tightened from {_said(old.get(name))} to {new[name]}"
    if "enum" in new:
        gone = [value for value in old.get("enum", ()) if value not in new["enum"]]
        if "enum" not in old:
            yield f"{path}: only some values are allowed now"
        elif gone:
            yield f"{path}: no longer allows {', '.join(map(_said, gone))}"


def _less(new: float, old: float) -> bool:
    return new < old


def _more(new: float, old: float) -> bool:
    return new > old


def _defaults(old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
    if old.get("default") != new.get("default"):
        yield f"{path}: the default changes from {_said(old.get('default'))} to {_said(new.get('default'))}"


def _rules(old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
    known = {rule["rule"] for rule in old.get(_RULES, ())}
    for rule in new.get(_RULES, ()):
        if rule["rule"] not in known:
            yield f"{path}: the rule `{rule['rule']}` is new"


def _said(value: Any) -> str:
    return "nothing" if value is None else str(value)


_CHECKS: Final[tuple[_Check, ...]] = (_shape, _fields, _bounds, _defaults, _rules)
