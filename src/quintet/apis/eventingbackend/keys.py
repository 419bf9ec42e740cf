"""The form of the catalog: what a backend type and each of its options state."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

Value = int | str
"""A parsed value: a number for `int`, text for all other data types."""

LARGEST_NUMBER: Final = 2**53 - 1
"""The largest integer that every JSON library keeps exactly."""


class DataType(StrEnum):
    """The data type of an option."""

    INT = "int"
    STRING = "string"
    QUANTITY = "quantity"
    DURATION = "duration"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression with the same meaning in Python, ECMAScript and Go."""

    expression: str
    words: str
    """The error message for a text that does not match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One option of a configuration."""

    name: str
    description: str
    data_type: DataType
    default: Value | None = None
    """The value if the option is not set; None means no value."""
    derived: str = ""
    """A default made from other options, each in braces; those must have defaults too."""
    required: bool = False
    """The option must be set in the spec; a default is written there at creation.

    For options that say where events are stored: a new default in a later release must not move them.
    """
    allowed: tuple[str, ...] = ()
    minimum: Value | None = None
    maximum: Value | None = None
    longest: int | None = None
    pattern: Pattern | None = None
    outside: str = ""
    """Another option: this subject must not be below the subject prefix that it names."""
    names_secret: bool = False
    """The value is the name of a Secret. An invalid value is not shown: it may be the secret itself."""
    sensitive: bool = False
    """The value is a secret and is never shown."""
    deprecated: str = ""
    """The replacement of a deprecated option."""


@dataclass(frozen=True, slots=True)
class BackendType:
    """One backend type and its options, in reading order."""

    name: str
    description: str
    keys: tuple[Key, ...]

    def key(self, name: str) -> Key | None:
        """Return the option with this name."""
        return next((key for key in self.keys if key.name == name), None)
