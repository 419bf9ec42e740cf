"""The last good configuration, read back from where the status shows it.

Pure; asked by the controller while `spec.config` has mistakes. So the last good configuration
outlives both a bad spec and a restart. A status can be written by others too: what is read back is
checked like any other config.
"""

from collections.abc import Iterable, Sequence

from quintet.apis.eventingbackend.catalog import BackendType, DataType
from quintet.apis.eventingbackend.effective import Effective, effective
from quintet.apis.eventingbackend.types import EffectiveValue, Origin
from quintet.apis.eventingbackend.validation import config_faults


def effective_from_status(backend: BackendType, shown: Sequence[EffectiveValue]) -> Effective | None:
    """The configuration that a status shows; None if it cannot be told from there.

    Keys that this release does not know are left out; keys that it knows in addition get their
    defaults. A default of back then stays, because it is what is in use.
    """
    known = [(entry, key) for entry in shown if entry.value and (key := backend.key(entry.name)) is not None]
    if not known or any(key.sensitive for _, key in known):
        return None
    written = {
        key.name: _number(entry.value) if key.data_type is DataType.INT else entry.value
        for entry, key in known
    }
    if config_faults(backend, [{name: value} for name, value in written.items()]):
        return None
    found = effective(backend, written)
    return Effective(backend, found.values, {**found.origins, **_origins(entry for entry, _ in known)})


def _origins(shown: Iterable[EffectiveValue]) -> dict[str, Origin]:
    return {entry.name: entry.origin for entry in shown}


def _number(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text
