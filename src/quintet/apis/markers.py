"""Markers for `Annotated` that describe a field beyond its Python type.

`schema` reads them. Bounds and descriptions use `msgspec.Meta`, so that decoding checks them too; the
markers here concern only the API server:

    replicas: Annotated[int, Meta(description="How many copies run.", ge=0, le=1000), DEFAULTED] = 1
    routes: Annotated[tuple[Route, ...], list_map("path"), Meta(max_length=16)] = ()
"""

from dataclasses import dataclass, field
from typing import Any, Final

from quintet.apis.meta import JsonObject


@dataclass(frozen=True, slots=True, eq=False)  # without values to compare, it can be part of a hashed type
class Keywords:
    """Schema keywords to add unchanged."""

    schema: JsonObject


@dataclass(frozen=True, slots=True, eq=False)
class Verbatim:
    """A schema that replaces the generated one, for types that are defined elsewhere."""

    schema: JsonObject


@dataclass(frozen=True, slots=True)
class Defaulted:
    """See `DEFAULTED`."""


@dataclass(frozen=True, slots=True)
class OneOrMany:
    """See `ONE_OR_MANY`."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule that the API server evaluates on the marked value.

    A field has its rules in `Annotated`, a struct in a class variable `rules: ClassVar`, an object in
    its `CustomResource`. `message` is the error message of a rule that fails.
    """

    rule: str
    message: str = ""
    message_expression: str = field(default="", kw_only=True)
    field_path: str = field(default="", kw_only=True)
    reason: str = field(default="", kw_only=True)
    optional_old_self: bool = field(default=False, kw_only=True)

    def schema(self) -> JsonObject:
        """Return the entry of `x-kubernetes-validations`."""
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
"""The API server sets the struct's default, so it is stored and visible.

Without it a default is only what our code assumes for a missing field, and may change in a later
release: right for the status, for empty values, and for what an operator flag decides.
"""

IMMUTABLE: Final = Rule("self == oldSelf", "must not be changed")
"""The value is immutable while it is set. A rule of the struct says whether it may be added or removed."""

ATOMIC: Final = Keywords({"x-kubernetes-list-type": "atomic"})
"""An atomic list."""

SET: Final = Keywords({"x-kubernetes-list-type": "set"})
"""A set of scalars; several field managers may each own some of them."""

ATOMIC_MAP: Final = Keywords({"x-kubernetes-map-type": "atomic"})
"""An atomic object or map."""

FREE_FORM: Final = Keywords({"x-kubernetes-preserve-unknown-fields": True})
"""Unknown fields are preserved: for maps and templates whose schema is not ours."""

EMBEDDED_OBJECT: Final = Keywords(
    {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
)
"""A whole Kubernetes object with apiVersion, kind and metadata."""

ONE_OR_MANY: Final = OneOrMany()
"""A list, or a single item that a webhook turns into a list."""

NULLABLE: Final = Keywords({"nullable": True})
"""`null` is allowed and preserved."""

DATE_TIME: Final = Keywords({"format": "date-time"})
"""An RFC 3339 time."""

INT64: Final = Keywords({"format": "int64"})
"""A 64-bit integer although its bounds fit 32 bits."""


def list_map(*keys: str) -> Keywords:
    """A list of structs with these key fields (wire names); several field managers may each own some."""
    return Keywords({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})
