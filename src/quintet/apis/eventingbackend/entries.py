"""`spec.config` as it was written, a list of one-key maps → pairs, and what is wrong with its form.

Pure; the first step of `validation`, and all that `effective` needs of a config without mistakes.
A wrong form never hides the mistakes inside: as many pairs as can be found are returned.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from quintet.apis.eventingbackend.types import MOST_ENTRIES, ConfigFault, FaultType
from quintet.apis.eventingbackend.values import text_of

ONE_KEY: Final = "should be a map with one key"
TOO_MANY: Final = f"must have at most {MOST_ENTRIES} entries"
LIST: Final = "should be a list of maps with one key each"


class Entries(NamedTuple):
    """What was found in a config."""

    pairs: tuple[tuple[str, Any], ...]
    faults: tuple[ConfigFault, ...]


def entries(config: Any) -> Entries:
    """Look at a config; nothing written is an empty one. What is beyond the bound is not looked at."""
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
    # YAML knows keys that are no text; they are not in any catalog, so their text will do.
    return ((name if isinstance(name, str) else text_of(name), value) for name, value in entry.items())


def _form(where: str, found: Any, error: str) -> ConfigFault:
    """The sort of what was found, never the thing itself: it may hold a secret."""
    if isinstance(found, dict):
        keys = text_of(", ".join(name for name, _ in _pairs(found)))
        return ConfigFault(FaultType.DATA_TYPE, where, keys, error)
    names: dict[type, str] = {bool: "a boolean", str: "a text", int: "a number", float: "a number"}
    sort = "null" if found is None else names.get(type(found), "a list")
    return ConfigFault(FaultType.DATA_TYPE, where, f"({sort})", error)
