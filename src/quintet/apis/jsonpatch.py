"""Computes the difference of two JSON values as a JSON Patch (RFC 6902).

Pure. A patch contains only what differs, so that it never overwrites a field that somebody else
changes at the same time.
"""

from typing import Any

from quintet.apis.meta import JsonObject


def diff(before: Any, after: Any, path: str = "") -> list[JsonObject]:
    """Return the operations that turn `before` into `after`."""
    if before is after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        return _diff_objects(before, after, path)
    if isinstance(before, list) and isinstance(after, list):
        return _diff_lists(before, after, path)
    return [] if same(before, after) else [{"op": "replace", "path": path, "value": after}]


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; for Python `1`, `1.0` and `True` are."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _diff_objects(before: JsonObject, after: JsonObject, path: str) -> list[JsonObject]:
    operations: list[JsonObject] = []
    for key, value in before.items():
        where = f"{path}/{_escape(key)}"
        operations += diff(value, after[key], where) if key in after else [{"op": "remove", "path": where}]
    operations += [
        {"op": "add", "path": f"{path}/{_escape(key)}", "value": value}
        for key, value in after.items()
        if key not in before
    ]
    return operations


def _diff_lists(before: list[Any], after: list[Any], path: str) -> list[JsonObject]:
    """Skip equal items at both ends and change the others one by one."""
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and same(before[head], after[head]):
        head += 1
    tail = 0
    while tail < shorter - head and same(before[-1 - tail], after[-1 - tail]):
        tail += 1
    operations: list[JsonObject] = []
    for index in range(head, shorter - tail):
        operations += diff(before[index], after[index], f"{path}/{index}")
    surplus = range(shorter - tail, len(before) - tail)
    # From the end, because each removal moves the items behind it.
    operations += [{"op": "remove", "path": f"{path}/{index}"} for index in reversed(surplus)]
    operations += [
        {"op": "add", "path": f"{path}/{index}", "value": after[index]}
        for index in range(shorter - tail, len(after) - tail)
    ]
    return operations


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
