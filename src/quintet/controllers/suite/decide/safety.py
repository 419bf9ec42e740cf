"""Whether a CRD can be changed while it has objects.

A change is unsafe if a valid object could become invalid or lose data, or if a client could break. The
schemas are compared in `schemas`, everything else here. OLM v1 makes the same checks.
"""

from collections.abc import Iterator
from typing import Any, Final

from quintet.apis.meta import JsonObject
from quintet.apis.text import shorten_list
from quintet.controllers.suite.decide.schemas import display, incompatible_changes

_NO_CONVERSION: Final = "None"


def unsafe_changes(old: JsonObject, new: JsonObject) -> list[str]:
    """Return the unsafe changes between two CRDs, each as `path: change`.

    Short names, categories, columns, the singular and the order of versions may change: nothing stored, and
    no URL, depends on them.
    """
    stored = old.get("status", {}).get("storedVersions") or ()
    return [*_check_frame(old["spec"], new["spec"]), *_versions(old["spec"], new["spec"], stored)]


def is_wider(live: JsonObject, ours: JsonObject) -> bool:
    """Return whether a live CRD accepts all objects that ours accepts, as that of a later version does."""
    return not unsafe_changes({"spec": ours["spec"]}, live)


def describe_unused(name: str, changes: list[str]) -> str:
    """Return which parts of a wider CRD this version does not use, from its unsafe changes."""
    paths = dict.fromkeys(change.partition(": ")[0] for change in changes)
    return f"{name} (this version ignores {shorten_list(paths, 5)})"


def _check_frame(old: JsonObject, new: JsonObject) -> Iterator[str]:
    for name in ("group", "scope"):
        if old[name] != new[name]:
            yield f"spec.{name}: changes from {old[name]} to {new[name]}"
    before, after = _names(old["names"]), _names(new["names"])
    for name in before:
        if before[name] != after[name]:
            yield f"spec.names.{name}: changes from {before[name]} to {after[name]}"
    if old.get("preserveUnknownFields") and not new.get("preserveUnknownFields"):
        yield "spec.preserveUnknownFields: unknown fields are no longer preserved"
    if _conversion(old) != _conversion(new) == _NO_CONVERSION and len(old["versions"]) > 1:
        yield "spec.conversion: objects are no longer converted between versions"


def _names(names: JsonObject) -> JsonObject:
    # The default listKind follows the kind and is not a change of its own.
    listed = names.get("listKind", f"{names['kind']}List")
    usual = listed == f"{names['kind']}List"
    return {
        "kind": names["kind"],
        "plural": names["plural"],
        "listKind": "the usual one" if usual else listed,
    }


def _conversion(spec: JsonObject) -> str:
    return str(spec.get("conversion", {}).get("strategy", _NO_CONVERSION))


def _versions(old: JsonObject, new: JsonObject, stored: Any) -> Iterator[str]:
    offered = {version["name"]: version for version in new["versions"]}
    for version in old["versions"]:
        name, place = version["name"], f"versions[{version['name']}]"
        if name in offered:
            yield from _version(version, offered[name], place)
        elif version["served"]:
            yield f"{place}: is removed"
        elif name in stored or version["storage"]:
            yield f"{place}: is removed, and status.storedVersions says that objects may be stored in it"
    if _conversion(new) == _NO_CONVERSION:
        yield from _added_versions(old["versions"], offered)


def _added_versions(old: list[JsonObject], offered: dict[str, JsonObject]) -> Iterator[str]:
    """Compare added versions: without conversion, stored objects are read by their schema as they are."""
    known = {version["name"] for version in old}
    before = next(version for version in old if version["storage"])
    for name, version in offered.items():
        if name not in known:
            place = f"versions[{name}].schema"
            for finding in incompatible_changes(_schema_of(before), _schema_of(version), place):
                yield f"{finding}, for objects stored as {before['name']}, and there is no conversion"


def _version(old: JsonObject, new: JsonObject, place: str) -> Iterator[str]:
    if old["served"] and not new["served"]:
        yield f"{place}: is no longer served"
    given = new.get("subresources", {})
    for name, before in old.get("subresources", {}).items():
        if name not in given:
            yield f"{place}.subresources.{name}: is removed"
            continue
        for field in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath"):
            if field in before and before[field] != given[name].get(field):
                change = f"changes from {before[field]} to {display(given[name].get(field))}"
                yield f"{place}.subresources.{name}.{field}: {change}"
    selectable = {each["jsonPath"] for each in new.get("selectableFields", ())}
    for each in old.get("selectableFields", ()):
        if each["jsonPath"] not in selectable:
            yield f"{place}.selectableFields: {each['jsonPath']} is removed"
    yield from incompatible_changes(_schema_of(old), _schema_of(new), f"{place}.schema")


def _schema_of(version: JsonObject) -> JsonObject:
    schema: JsonObject = version["schema"]["openAPIV3Schema"]
    return schema
