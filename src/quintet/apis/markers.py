"""What a field says about itself beyond its Python type, inside `Annotated`.

Written by every kind beside its types, read by `schema`. Bounds and descriptions are said with
`msgspec.Meta`, so that decoding checks them too; the markers here are about the API server alone:

    replicas: Annotated[int, Meta(description="How many copies run.", ge=0, le=1000), DEFAULTED] = 1
    routes: Annotated[tuple[Route, ...], list_map("path"), Meta(max_length=16)] = ()
"""

from dataclasses import dataclass, field
from typing import Any, Final

from quintet.apis.meta import JsonObject


@dataclass(frozen=True, slots=True, eq=False)  # without values to compare, it can be part of a hashed type
class Keywords:
    """Schema keywords to add as they are."""

    schema: JsonObject


@dataclass(frozen=True, slots=True, eq=False)
class Verbatim:
    """A schema that replaces the generated one, for types that somebody else defines."""

    schema: JsonObject


@dataclass(frozen=True, slots=True)
class Defaulted:
    """See `DEFAULTED`."""


@dataclass(frozen=True, slots=True)
class OneOrMany:
    """See `ONE_OR_MANY`."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL expression that the API server checks, on the value that carries it.

    A field carries rules in its `Annotated`, a struct in a class variable `rules: ClassVar`, an
    object in its `CustomResource`. `message` is what a person reads when the rule does not hold.
    """

    rule: str
    message: str = ""
    message_expression: str = field(default="", kw_only=True)
    field_path: str = field(default="", kw_only=True)
    reason: str = field(default="", kw_only=True)
    optional_old_self: bool = field(default=False, kw_only=True)

    def schema(self) -> JsonObject:
        """An entry of `x-kubernetes-validations`."""
        entry: dict[str, Any] = {
            "rule": self.rule,
            "message": self.message,
            "messageExpression": self.message_expression,
            "fieldPath": self.field_path,
            "reason": self.reason,
            "optionalOldSelf": self.optional_old_self,
        }
        return {key: value for key, value in entry.items() if value}


DEFAULTED: Final = Defaulted()
"""The API server fills in the struct's default, so it is stored, shown and versioned.

Without it a default is only what our code assumes when nothing was written, and may change in a later
release: right for the status, for "empty", and for everything that an operator flag decides.
"""

IMMUTABLE: Final = Rule("self == oldSelf", "must not be changed")
"""A value that stays as it is while it is there. Whether it may come or go is for a rule of its struct."""

ATOMIC: Final = Keywords({"x-kubernetes-list-type": "atomic"})
"""A list that is written as a whole."""

SET: Final = Keywords({"x-kubernetes-list-type": "set"})
"""A list of scalars without duplicates; several writers may each own some of them."""

ATOMIC_MAP: Final = Keywords({"x-kubernetes-map-type": "atomic"})
"""An object or map that is written as a whole."""

FREE_FORM: Final = Keywords({"x-kubernetes-preserve-unknown-fields": True})
"""Whatever is written is kept: for maps and templates whose shape is not ours."""

EMBEDDED_OBJECT: Final = Keywords(
    {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
)
"""A whole Kubernetes object with apiVersion, kind and metadata."""

ONE_OR_MANY: Final = OneOrMany()
"""A list, or the only item of one without brackets around it, for a webhook to put into a list."""

NULLABLE: Final = Keywords({"nullable": True})
"""`null` may be written and is kept."""

DATE_TIME: Final = Keywords({"format": "date-time"})
"""A string that holds an RFC 3339 time."""

INT64: Final = Keywords({"format": "int64"})
"""An integer of 64 bits although its bounds would fit 32."""


def list_map(*keys: str) -> Keywords:
    """A list of structs told apart by these fields (wire names); several writers may each own some."""
    return Keywords({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})
