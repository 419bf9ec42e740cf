"""Validation errors: the path of a field, what is wrong with its value, and how to fix it.

Webhooks, the status of objects and `quintet validate` all report the same `FieldError`s.

    errors = FieldErrors()
    errors.invalid(SPEC.child("params").index(2).child("name"), "a b", "must not contain a space")
    errors.raise_if_any("Checkup shop/ping")
"""

import difflib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

LONGEST_VALUE = 80


@dataclass(frozen=True, slots=True, init=False, order=True)
class FieldPath:
    """The path of a field in Kubernetes notation: `spec.params[2].name`, `spec.labels[app]`."""

    parts: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "parts", tuple(f".{name}" for name in names))

    def child(self, *names: str) -> "FieldPath":
        """Return the path of a field of the object at this path."""
        return self._append(*(f".{name}" for name in names))

    def index(self, index: int | str) -> "FieldPath":
        """Return the path of an item of the list at this path."""
        return self._append(f"[{index}]")

    def key(self, key: str) -> "FieldPath":
        """Return the path of a value of the map at this path."""
        return self._append(f"[{key}]")

    def _append(self, *parts: str) -> "FieldPath":
        path = FieldPath()
        object.__setattr__(path, "parts", self.parts + parts)
        return path

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __str__(self) -> str:
        return "".join(self.parts).removeprefix(".")


SPEC: Final = FieldPath("spec")
METADATA: Final = FieldPath("metadata")


class ErrorType(Enum):
    """The type of a validation error: a text for people and the `reason` of a `StatusCause`."""

    REQUIRED = ("Required value", "FieldValueRequired")
    INVALID = ("Invalid value", "FieldValueInvalid")
    TYPE_INVALID = ("Invalid type", "FieldValueTypeInvalid")
    NOT_SUPPORTED = ("Unsupported value", "FieldValueNotSupported")
    NOT_FOUND = ("Not found", "FieldValueNotFound")
    DUPLICATE = ("Duplicate value", "FieldValueDuplicate")
    TOO_LONG = ("Too long", "FieldValueTooLong")
    TOO_MANY = ("Too many", "FieldValueTooMany")
    FORBIDDEN = ("Forbidden", "FieldValueForbidden")
    IMMUTABLE = ("Immutable", "FieldValueForbidden")

    @property
    def text(self) -> str:
        """The text for people."""
        return self.value[0]

    @property
    def reason(self) -> str:
        """The `reason` of a `StatusCause`."""
        return self.value[1]


class Omitted(Enum):
    """The placeholder for a value that must not or need not be shown."""

    OMITTED = "omitted"


OMITTED: Final = Omitted.OMITTED
WITHOUT_VALUE = frozenset(
    {ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.TOO_MANY, ErrorType.IMMUTABLE}
)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One validation error: path, type, value, explanation, and the next step for the user."""

    path: FieldPath
    type: ErrorType
    value: Any = OMITTED
    message: str = ""
    next_step: str = ""

    @property
    def cause(self) -> str:
        """The message of a `StatusCause`: the error without its path."""
        shown = "" if self.value is OMITTED or self.type in WITHOUT_VALUE else _shorten(self.value)
        text = ": ".join(part for part in (self.type.text, shown, self.message) if part)
        return f"{text} ({self.next_step})" if self.next_step else text

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}" if self.path else self.cause


class InvalidObjectError(ValueError):
    """Raised for an invalid object; the message names the object and lists all errors."""

    def __init__(self, subject: str, errors: Iterable[FieldError]) -> None:
        self.subject = subject
        self.errors = tuple(errors)
        super().__init__(f"{subject} is invalid: {'; '.join(map(str, self.errors))}")


class ValidationResult(NamedTuple):
    """The result of validating an object: errors reject it, warnings do not."""

    errors: tuple[FieldError | str, ...] = ()
    """Errors of fields, or plain sentences about the whole object."""
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class FieldErrors:
    """A list of validation errors, so that users see all of them at once."""

    found: list[FieldError] = field(default_factory=list)

    def add(
        self, path: FieldPath, type: ErrorType, value: Any = OMITTED, message: str = "", next_step: str = ""
    ) -> None:
        """Add an error of any type; the other methods are shorter."""
        self.found.append(FieldError(path, type, value, message, next_step))

    def required(self, path: FieldPath, message: str = "must be set") -> None:
        """Add an error: the value is missing."""
        self.add(path, ErrorType.REQUIRED, message=message)

    def invalid(self, path: FieldPath, value: Any, message: str, next_step: str = "") -> None:
        """Add an error: the value has the right type but is invalid."""
        self.add(path, ErrorType.INVALID, value, message, next_step)

    def type_invalid(self, path: FieldPath, value: Any, expected: str) -> None:
        """Add an error: the value has the wrong type."""
        self.add(path, ErrorType.TYPE_INVALID, value, f"must be of type {expected}")

    def not_supported(self, path: FieldPath, value: str, allowed: Iterable[str]) -> None:
        """Add an error: the value is not one of those allowed; suggests the closest one."""
        names = list(allowed)
        near = difflib.get_close_matches(value, names, n=1)
        listed = ", ".join(f"'{name}'" for name in names)
        self.add(
            path,
            ErrorType.NOT_SUPPORTED,
            value,
            f"must be one of {listed}",
            f"did you mean '{near[0]}'?" if near else "",
        )

    def not_found(self, path: FieldPath, value: Any, message: str = "") -> None:
        """Add an error: the value refers to something that does not exist."""
        self.add(path, ErrorType.NOT_FOUND, value, message)

    def duplicate(self, path: FieldPath, value: Any) -> None:
        """Add an error: the value occurs twice."""
        self.add(path, ErrorType.DUPLICATE, value, "must be unique")

    def too_long(self, path: FieldPath, limit: int, unit: str = "characters") -> None:
        """Add an error: the text is too long."""
        self.add(path, ErrorType.TOO_LONG, message=f"must not be longer than {limit} {unit}")

    def too_many(self, path: FieldPath, count: int, limit: int) -> None:
        """Add an error: the list or map has too many entries."""
        self.add(path, ErrorType.TOO_MANY, message=f"has {count} entries and must have at most {limit}")

    def forbidden(self, path: FieldPath, message: str) -> None:
        """Add an error: this field must not be set."""
        self.add(path, ErrorType.FORBIDDEN, message=message)

    def immutable(self, path: FieldPath, next_step: str = "") -> None:
        """Add an error: an immutable value was changed."""
        self.add(path, ErrorType.IMMUTABLE, message="must not be changed", next_step=next_step)

    def raise_if_any(self, subject: str) -> None:
        """Raise `InvalidObjectError` if there are errors."""
        if self.found:
            raise InvalidObjectError(subject, self.found)

    def __iter__(self) -> Iterator[FieldError]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}… ({len(text)} characters)"
