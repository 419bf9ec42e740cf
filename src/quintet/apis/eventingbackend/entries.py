"""Parses `spec.config`, a list of one-key maps, into pairs and form errors.

Pure; the first step of `validation`. A form error does not hide other errors: all pairs that can be
found are returned.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from quintet.apis.eventingbackend.types import MOST_ENTRIES, ConfigFault, FaultType
from quintet.apis.eventingbackend.values import text_of

ONE_KEY: Final = "should be a map with one key"
TOO_MANY: Final = f"must have at most {MOST_ENTRIES} entries"
LIST: Final = "should be a list of maps with one key each"


class Entries(NamedTuple):
    """The pairs of a config and its form errors."""

    pairs: tuple[tuple[str, Any], ...]
    faults: tuple[ConfigFault, ...]


def entries(config: Any) -> Entries:
    """Parse a config; None is an empty one. Entries beyond the maximum are ignored."""
    if config is None:
        return Entries((), ())
    if not isinstance(config, list | tuple):
        written = config if isinstance(config, dict) else {}
        return _limit(list(_pairs(written)), [_form("config", config, LIST)], len(written))
    pairs: list[tuple[str, Any]] = []
    faults = []
    for index, entry in enumerate(config[:MOST_ENTRIES]):
        if not isinstance(entry, dict) or len(entry) != 1:
            faults.append(_form(f"config[{index}]", entry, ONE_KEY))
        if isinstance(entry, dict):
            pairs += _pairs(entry)
    return _limit(pairs, faults, len(config))


def _limit(pairs: list[tuple[str, Any]], faults: list[ConfigFault], written: int) -> Entries:
    count = max(written, len(pairs))
    if count > MOST_ENTRIES:
        faults = [*faults, ConfigFault(FaultType.VALUE, "config", f"({count} entries)", TOO_MANY)]
    return Entries(tuple(pairs[:MOST_ENTRIES]), tuple(faults))


def _pairs(entry: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    # YAML allows keys that are not strings; no catalog contains them, so their text suffices.
    return ((name if isinstance(name, str) else text_of(name), value) for name, value in entry.items())


def _form(where: str, found: Any, error: str) -> ConfigFault:
    """Return the type of a value, never the value itself: it may contain a secret."""
    if isinstance(found, dict):
        keys = text_of(", ".join(name for name, _ in _pairs(found)))
        return ConfigFault(FaultType.DATA_TYPE, where, keys, error)
    names: dict[type, str] = {bool: "a boolean", str: "a text", int: "a number", float: "a number"}
    sort = "null" if found is None else names.get(type(found), "a list")
    return ConfigFault(FaultType.DATA_TYPE, where, f"({sort})", error)
