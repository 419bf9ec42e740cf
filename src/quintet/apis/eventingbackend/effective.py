"""The configuration that is in use: what the user wrote, with every default, and where each comes from.

Pure. `effective` takes values without mistakes; `required` says what is written into a spec when it
is created. How the last good configuration is found again: `serving`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from quintet.apis.eventingbackend.catalog import BackendType, Key, Value
from quintet.apis.eventingbackend.types import EffectiveValue, Origin
from quintet.apis.eventingbackend.values import NOT_SHOWN, meaning, plain


@dataclass(frozen=True, slots=True)
class Effective:
    """Every key that has a value; the methods read one by its data type."""

    backend: BackendType
    values: Mapping[str, Value]
    origins: Mapping[str, Origin]

    def integer(self, name: str) -> int:
        """The value of an `int` that has a default."""
        value = self.values[name]
        if not isinstance(value, int):
            raise TypeError(f"{name} of backend type {self.backend.name} is not of type int")
        return value

    def text(self, name: str) -> str:
        """A value as text; empty if there is none."""
        return str(self.values.get(name, ""))

    def measure(self, name: str) -> Decimal:
        """The bytes of a quantity or the seconds of a duration."""
        found = self._key(name)
        read = meaning(found.data_type, self.values[name])
        if not isinstance(read, Decimal):
            raise TypeError(f"{name} of backend type {self.backend.name} is neither quantity nor duration")
        return read

    def entries(self) -> tuple[EffectiveValue, ...]:
        """As a status shows it: every key, in the order of the catalog; one without a value is empty."""
        return tuple(
            EffectiveValue(key.name, self._shown(key), self.origins.get(key.name, Origin.DEFAULT))
            for key in self.backend.keys
        )

    def _shown(self, key: Key) -> str:
        # Checked values are bounded by the catalog, so they are shown whole and can be read back.
        return NOT_SHOWN if key.sensitive and key.name in self.values else self.text(key.name)

    def _key(self, name: str) -> Key:
        key = self.backend.key(name)
        if key is None:
            raise KeyError(f"{name} does not exist for backend type {self.backend.name}")
        return key


def effective(backend: BackendType, written: Mapping[str, Any]) -> Effective:
    """Values as they were written, of keys that the backend has, and the defaults of all the others."""
    values = {
        key.name: plain(key.data_type, written[key.name]) for key in backend.keys if key.name in written
    }
    origins = dict.fromkeys(values, Origin.USER)
    for key in backend.keys:
        if key.name not in values and key.default is not None:
            values[key.name], origins[key.name] = key.default, Origin.DEFAULT
    for key in backend.keys:
        if key.name not in values and key.derived:
            values[key.name], origins[key.name] = key.derived.format_map(values), Origin.DEFAULT
    return Effective(backend, values, origins)


def missing_defaults(backend: BackendType, names: Iterable[str]) -> dict[str, Value]:
    """Keys that must have a value in the spec, have none among these names, and have a default."""
    given = set(names)
    return {
        key.name: key.default
        for key in backend.keys
        if key.required and key.default is not None and key.name not in given
    }
