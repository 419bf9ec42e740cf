"""Finds which desired fields of a child somebody else changed, and who, from managedFields. Pure."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from quintet.apis.meta import JsonObject
from quintet.runtime.ownership import APPLIED, ATOMIC, ManagedFields, Record, covers, is_key_of, item_records

MOST_FIELDS = 5


class ChangedField(NamedTuple):
    """A desired field that is no longer ours, and the field managers that have it now; none if it is gone."""

    path: str
    managers: tuple[str, ...]


class _Other(NamedTuple):
    manager: str
    fields: JsonObject


def find_changed_fields(
    entries: tuple[ManagedFields, ...], desired: JsonObject, ours: str
) -> list[ChangedField]:
    """Return the fields of `desired` that the entries of managedFields do not record as ours."""
    records: list[Record] = []
    others: list[_Other] = []
    for entry in entries:
        fields = msgspec.json.decode(entry.fields)
        if entry.manager == ours and not entry.subresource:
            records.append((fields, entry.operation == "Apply"))
        else:
            others.append(_Other(entry.manager, fields))
    metadata = desired["metadata"]
    annotations = {key: value for key, value in metadata.get("annotations", {}).items() if key != APPLIED}
    seen = {name: metadata[name] for name in ("labels", "ownerReferences") if name in metadata}
    seen |= {"annotations": annotations} if annotations else {}
    body = {name: value for name, value in desired.items() if name not in ("apiVersion", "kind", "metadata")}
    return list(_walk(records, others, {"metadata": seen, **body}, ""))


def describe_changes(changes: list[ChangedField]) -> str:
    """Return which fields were restored and who had changed them, as one sentence for users."""
    by_manager: dict[str, list[str]] = {}
    for change in changes:
        who = f"changed by {', '.join(change.managers)}" if change.managers else "removed by another client"
        by_manager.setdefault(who, []).append(change.path)
    return "; ".join(f"restored {_list(paths)} ({who})" for who, paths in by_manager.items())


def _list(paths: list[str]) -> str:
    more = len(paths) - MOST_FIELDS
    return ", ".join(paths[:MOST_FIELDS]) + (f" and {more} more" if more > 0 else "")


def _walk(records: list[Record], others: list[_Other], value: Any, path: str) -> Iterator[ChangedField]:
    if isinstance(value, dict):
        for name, item in value.items():
            field, below = f"f:{name}", f"{path}.{name}".removeprefix(".")
            ours = [(fields[field], applied) for fields, applied in records if field in fields]
            theirs = [_Other(who, fields[field]) for who, fields in others if field in fields]
            if item is None or covers(ours, item, name in ATOMIC):
                continue
            if name in ATOMIC or not isinstance(item, dict | list) or not item:
                yield ChangedField(below, tuple(dict.fromkeys(who for who, _ in theirs)))
            else:
                yield from _walk(ours, theirs, item, below)
        return
    for index, item in enumerate(value):
        ours = item_records(records, item)
        if covers(ours, item, True):
            continue
        theirs = [
            _Other(who, below)
            for who, fields in others
            for name, below in fields.items()
            if is_key_of(name, item)
        ]
        where = f"{path}[{item['name'] if isinstance(item, dict) and 'name' in item else index}]"
        if isinstance(item, dict) and ours:
            yield from _walk(ours, theirs, item, where)
        else:
            yield ChangedField(where, tuple(dict.fromkeys(who for who, _ in theirs)))
