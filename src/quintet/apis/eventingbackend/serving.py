"""Restores the last valid configuration from the status.

Pure; used while `spec.config` has errors, so that the last valid configuration survives an invalid
spec and a restart. Others may write the status too, so it is validated like any other config.
"""

from collections.abc import Iterable, Sequence

from quintet.apis.eventingbackend.effective import Effective, effective
from quintet.apis.eventingbackend.keys import BackendType, DataType
from quintet.apis.eventingbackend.types import EffectiveValue, Origin
from quintet.apis.eventingbackend.validation import config_faults


def effective_from_status(backend: BackendType, shown: Sequence[EffectiveValue]) -> Effective | None:
    """Return the configuration in a status; None if it cannot be restored.

    Options that this release does not know are dropped; its new options get their defaults. An old
    default stays, because it is in use.
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
