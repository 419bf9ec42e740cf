"""Merges what others changed with what a config changes: the one rule for every value that a config sets.

Of each field three versions are compared: what the config wrote (`base`), what is there now (`theirs`), and
what is to be there next (`ours`). A field that others did not change becomes ours. One that they changed
stays theirs, unless the config enforces its own value. Fields are those of containers; any other value is
one field. Pure.
"""

from typing import Any, Final

from quintet.apis.casconfig.places import ABSENT, CONTAINER_LISTS, IDENTITIES, Path, identity, names_item
from quintet.apis.casconfig.sameness import canonical, equal, same
from quintet.apis.meta import JsonObject

MERGED: Final = ("resources", "securityContext", "limits", "requests", "capabilities")
"""Maps of a container whose fields are merged; of others, half of one and half of another is no use."""


def merge(
    path: Path,
    base: Any,
    theirs: Any,
    ours: Any,
    *,
    enforce: bool = False,
    lost: dict[Path, Any] | None = None,
    replaced: list[Path] | None = None,
) -> Any:
    """Return the merged value of a path.

    `lost` collects fields of which ours was given up for theirs, and `replaced` those that others had added
    and that are ours now.
    """
    if same(path, theirs, ours):
        return theirs
    if same(path, theirs, base):
        return ours
    # Inside of a container, a map or a list that is not there is an empty one.
    inner = len(path) > 2
    # A container that others have added where the config had removed one is a new one.
    added = len(path) == 2 and base is ABSENT and not enforce
    if (
        not added
        and is_map(path)
        and all(isinstance(each, dict) or (inner and each is ABSENT) for each in (theirs, ours))
    ):
        one, two, three = (each if isinstance(each, dict) else {} for each in (base, theirs, ours))
        return _or_absent(_merge_maps(path, one, two, three, enforce, lost, replaced), theirs, ours)
    if all(is_keyed(path, each) or each is ABSENT for each in (theirs, ours)):
        first, second, third = (each if is_keyed(path, each) else [] for each in (base, theirs, ours))
        return _or_absent(_merge_lists(path, first, second, third, enforce, lost, replaced), theirs, ours)
    if enforce and ours is not ABSENT:
        if replaced is not None and base is ABSENT:
            replaced.append(path)
        return ours
    if lost is not None and not same(path, base, ours):
        lost[path] = theirs
    return theirs


def holds(path: Path, found: Any, value: Any) -> bool:
    """Return whether a value is there; other fields of a container may have been added to it."""
    return same(path, found, value if value is ABSENT else merge(path, value, found, value, enforce=True))


def additions(path: Path, found: Any, value: Any) -> list[Path]:
    """Return the fields that others have added to a value."""
    if is_map(path) and isinstance(found, dict) and isinstance(value, dict):
        there, meant = canonical(path, found), canonical(path, value)
        added = [(*path, key) for key in there if key not in meant]
        inner = [
            additions((*path, key), found[key], value[key]) for key in there if key in found and key in value
        ]
        return [*added, *(each for some in inner for each in some)]
    if is_keyed(path, found) and is_keyed(path, value):
        keys = {identity(path[-1], each) for each in value}
        return [(*path, key) for each in found if (key := identity(path[-1], each)) not in keys]
    return []


def without_additions(path: Path, was: Any, found: Any, value: Any) -> Any:
    """Return an earlier value without the fields that others have since added to the value in its place.

    They are visible there, so that a change of them is seen, and must not come back from the past.
    """
    if value is ABSENT and isinstance(found, dict | list):
        value = type(found)()
    if is_map(path) and isinstance(was, dict) and isinstance(found, dict) and isinstance(value, dict):
        there, meant = canonical(path, found), canonical(path, value)
        kept = {}
        for key, item in was.items():
            inner = (*path, key)
            if key not in there:
                kept[key] = item
            elif key in meant or is_map(inner) or is_keyed(inner, found.get(key)):
                kept[key] = without_additions(inner, item, found.get(key), value.get(key, ABSENT))
        return kept
    if is_keyed(path, was) and is_keyed(path, found) and is_keyed(path, value):
        field = path[-1]
        added = {identity(field, each) for each in found} - {identity(field, each) for each in value}
        return [each for each in was if identity(field, each) not in added]
    return was


def is_map(path: Path) -> bool:
    """Return whether a path is that of a map whose fields are merged."""
    if path[0] not in CONTAINER_LISTS:
        return False
    return len(path) == 2 or (path[-1] in MERGED and not names_item(path))


def is_keyed(path: Path, value: Any) -> bool:
    """Return whether a value is a list of a container whose items have distinct keys."""
    if not (
        isinstance(value, list) and path[0] in CONTAINER_LISTS and len(path) == 3 and path[2] in IDENTITIES
    ):
        return False
    return len({identity(path[2], each) for each in value}) == len(value)


def _or_absent(merged: Any, theirs: Any, ours: Any) -> Any:
    return merged if merged or ABSENT not in (theirs, ours) else ABSENT


def _merge_maps(
    path: Path,
    base: JsonObject,
    theirs: JsonObject,
    ours: JsonObject,
    enforce: bool,
    lost: dict[Path, Any] | None,
    replaced: list[Path] | None,
) -> JsonObject:
    # Compared with the defaults of the server filled in: one may depend on another field.
    meant_base, meant_theirs, meant_ours = (canonical(path, each) for each in (base, theirs, ours))
    merged = {}
    for key in (*theirs, *(key for key in ours if key not in theirs)):
        was, there, next_ = (each.get(key, ABSENT) for each in (meant_base, meant_theirs, meant_ours))
        if equal(there, next_):
            value = theirs.get(key, ours.get(key, ABSENT))
        elif equal(there, was):
            value = ours.get(key, ABSENT)
        else:
            sides = (each.get(key, ABSENT) for each in (base, theirs, ours))
            value = merge((*path, key), *sides, enforce=enforce, lost=lost, replaced=replaced)
        if value is not ABSENT:
            merged[key] = value
    return merged


def _merge_lists(
    path: Path,
    base: list[Any],
    theirs: list[Any],
    ours: list[Any],
    enforce: bool,
    lost: dict[Path, Any] | None,
    replaced: list[Path] | None,
) -> list[Any]:
    """Merge by item. The order is ours, then what others added; theirs if both have the same items."""
    field = path[-1]
    sides = [{identity(field, each): each for each in side} for side in (base, theirs, ours)]
    merged = {}
    for key in (*sides[2], *(key for key in sides[1] if key not in sides[2])):
        values = (side.get(key, ABSENT) for side in sides)
        value = merge((*path, key), *values, enforce=enforce, lost=lost, replaced=replaced)
        if value is not ABSENT:
            merged[key] = value
    order = sides[1] if merged.keys() == sides[1].keys() else merged
    return [merged[key] for key in order]
