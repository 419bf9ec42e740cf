"""The effective configuration: the user's values, all defaults, and the origin of each value.

Pure. `effective` takes valid values; `required` returns the defaults that are written into a new
spec. `serving` restores the last valid configuration.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from quintet.apis.eventingbackend.keys import BackendType, Key, Value
from quintet.apis.eventingbackend.types import EffectiveValue, Origin, SubjectPrefixes
from quintet.apis.eventingbackend.values import NOT_SHOWN, meaning, plain


@dataclass(frozen=True, slots=True)
class Effective:
    """All options that have a value; the methods return one by its data type."""

    backend: BackendType
    values: Mapping[str, Value]
    origins: Mapping[str, Origin]

    def integer(self, name: str) -> int:
        """Return the value of an `int` option that has a default."""
        value = self.values[name]
        if not isinstance(value, int):
            raise TypeError(f"{name} of backend type {self.backend.name} is not of type int")
        return value

    def text(self, name: str) -> str:
        """Return a value as text; empty if there is none."""
        return str(self.values.get(name, ""))

    def measure(self, name: str) -> Decimal:
        """Return the bytes of a quantity or the seconds of a duration."""
        found = self._key(name)
        read = meaning(found.data_type, self.values[name])
        if not isinstance(read, Decimal):
            raise TypeError(f"{name} of backend type {self.backend.name} is neither quantity nor duration")
        return read

    @property
    def subject_prefixes(self) -> SubjectPrefixes:
        """The prefixes that determine the subjects of events."""
        return SubjectPrefixes(self.text("streamSubjectPrefix"), self.text("eventTypePrefix"))

    def entries(self) -> tuple[EffectiveValue, ...]:
        """Return all options for the status, in catalog order; those without a value are empty."""
        return tuple(
            EffectiveValue(key.name, self._shown(key), self.origins.get(key.name, Origin.DEFAULT))
            for key in self.backend.keys
        )

    def _shown(self, key: Key) -> str:
        # The catalog bounds valid values, so the status shows them whole and they can be read back.
        return NOT_SHOWN if key.sensitive and key.name in self.values else self.text(key.name)

    def _key(self, name: str) -> Key:
        key = self.backend.key(name)
        if key is None:
            raise KeyError(f"{name} does not exist for backend type {self.backend.name}")
        return key


def effective(backend: BackendType, written: Mapping[str, Any]) -> Effective:
    """Return the effective configuration: the user's values of known options, defaults for all others."""
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
    """Return the defaults of required options that are not among these names."""
    given = set(names)
    return {
        key.name: key.default
        for key in backend.keys
        if key.required and key.default is not None and key.name not in given
    }
