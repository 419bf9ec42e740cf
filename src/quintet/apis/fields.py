"""Where a value is in an object, and what is wrong with it.

One list of `FieldError` feeds the reply of a webhook, the status of an object and
`quintet validate`, so the three cannot disagree. Pure; used by the validation of every kind.

    errors = FieldErrors()
    errors.invalid(SPEC.child("params").index(2).child("name"), "a b", "must not hold a space")
    errors.raise_if_any("Checkup shop/ping")
"""

import difflib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

LONGEST_VALUE = 80


@dataclass(frozen=True, slots=True, init=False, order=True)
class FieldPath:
    """`spec.params[2].name`, `spec.labels[app]`: as Kubernetes writes it."""

    parts: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "parts", tuple(f".{name}" for name in names))

    def child(self, *names: str) -> "FieldPath":
        """A field of the object here."""
        return self._longer(*(f".{name}" for name in names))

    def index(self, index: int | str) -> "FieldPath":
        """An item of the list here."""
        return self._longer(f"[{index}]")

    def key(self, key: str) -> "FieldPath":
        """A value of the map here."""
        return self._longer(f"[{key}]")

    def _longer(self, *parts: str) -> "FieldPath":
        path = FieldPath()
        object.__setattr__(path, "parts", self.parts + parts)
        return path

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __str__(self) -> str:
        return "".join(self.parts).removeprefix(".")


SPEC: Final = FieldPath("spec")
METADATA: Final = FieldPath("metadata")


class Kind(Enum):
    """What sort of mistake: the words for people and the `reason` of a `StatusCause` for programs."""

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
        """For people."""
        return self.value[0]

    @property
    def reason(self) -> str:
        """For programs."""
        return self.value[1]


class Omitted(Enum):
    """Stands for a value that must not or need not be shown."""

    OMITTED = "omitted"


OMITTED: Final = Omitted.OMITTED
WITHOUT_VALUE = frozenset({Kind.REQUIRED, Kind.FORBIDDEN, Kind.TOO_LONG, Kind.TOO_MANY, Kind.IMMUTABLE})


@dataclass(frozen=True, slots=True)
class FieldError:
    """One mistake: where, what sort, the value, why it is one, and what to do."""

    path: FieldPath
    kind: Kind
    value: Any = OMITTED
    message: str = ""
    next_step: str = ""

    @property
    def cause(self) -> str:
        """The error without its path, as a `StatusCause` has it."""
        shown = "" if self.value is OMITTED or self.kind in WITHOUT_VALUE else _shortened(self.value)
        text = ": ".join(part for part in (self.kind.text, shown, self.message) if part)
        return f"{text} ({self.next_step})" if self.next_step else text

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}" if self.path else self.cause


class InvalidObjectError(ValueError):
    """An object with one or more mistakes; its text names the object and all of them."""

    def __init__(self, subject: str, errors: Iterable[FieldError]) -> None:
        self.subject = subject
        self.errors = tuple(errors)
        super().__init__(f"{subject} is invalid: {'; '.join(map(str, self.errors))}")


@dataclass(slots=True)
class FieldErrors:
    """Collects mistakes, so that a person hears of all of them at once."""

    found: list[FieldError] = field(default_factory=list)

    def add(
        self, path: FieldPath, kind: Kind, value: Any = OMITTED, message: str = "", next_step: str = ""
    ) -> None:
        """Note any mistake; the other methods are shorter."""
        self.found.append(FieldError(path, kind, value, message, next_step))

    def required(self, path: FieldPath, message: str = "must be set") -> None:
        """A value is missing."""
        self.add(path, Kind.REQUIRED, message=message)

    def invalid(self, path: FieldPath, value: Any, message: str, next_step: str = "") -> None:
        """A value is of the right type but wrong."""
        self.add(path, Kind.INVALID, value, message, next_step)

    def type_invalid(self, path: FieldPath, value: Any, expected: str) -> None:
        """A value is of the wrong type."""
        self.add(path, Kind.TYPE_INVALID, value, f"must be of type {expected}")

    def not_supported(self, path: FieldPath, value: str, allowed: Iterable[str]) -> None:
        """A value is not one of those that there are; the nearest one is suggested."""
        names = list(allowed)
        near = difflib.get_close_matches(value, names, n=1)
        listed = ", ".join(f"'{name}'" for name in names)
        self.add(
            path,
            Kind.NOT_SUPPORTED,
            value,
            f"must be one of {listed}",
            f"did you mean '{near[0]}'?" if near else "",
        )

    def not_found(self, path: FieldPath, value: Any, message: str = "") -> None:
        """A value names something that does not exist."""
        self.add(path, Kind.NOT_FOUND, value, message)

    def duplicate(self, path: FieldPath, value: Any) -> None:
        """A value is there twice."""
        self.add(path, Kind.DUPLICATE, value, "must be unique")

    def too_long(self, path: FieldPath, limit: int, unit: str = "characters") -> None:
        """A text is longer than allowed."""
        self.add(path, Kind.TOO_LONG, message=f"must not be longer than {limit} {unit}")

    def too_many(self, path: FieldPath, count: int, limit: int) -> None:
        """A list or map holds more than allowed."""
        self.add(path, Kind.TOO_MANY, message=f"has {count} entries and must have at most {limit}")

    def forbidden(self, path: FieldPath, message: str) -> None:
        """A value must not be given here."""
        self.add(path, Kind.FORBIDDEN, message=message)

    def immutable(self, path: FieldPath, next_step: str = "") -> None:
        """A value was changed that must stay as it is."""
        self.add(path, Kind.IMMUTABLE, message="must not be changed", next_step=next_step)

    def raise_if_any(self, subject: str) -> None:
        """End here with all of them, if there are any."""
        if self.found:
            raise InvalidObjectError(subject, self.found)

    def __iter__(self) -> Iterator[FieldError]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)


def _shortened(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}… ({len(text)} characters)"
