"""Labels and label selectors, as Kubernetes defines them. Pure."""

import re
from typing import Annotated

from msgspec import field

from quintet.apis.fields import FieldErrors, FieldPath
from quintet.apis.markers import ATOMIC
from quintet.apis.meta import JsonObject, Struct

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_WITH_VALUES = ("In", "NotIn")
_NAME = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Requirement(Struct, frozen=True):
    """One requirement of a label selector."""

    key: str
    operator: str
    values: Annotated[tuple[str, ...], ATOMIC] = ()


class Selector(Struct, frozen=True):
    """A label selector."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: Annotated[tuple[Requirement, ...], ATOMIC] = ()


def matches(selector: Selector, labels: dict[str, str]) -> bool:
    """Return whether a selector matches these labels; an empty one matches everything."""
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _holds(requirement, labels) for requirement in selector.match_expressions
    )


def _holds(requirement: Requirement, labels: dict[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


def as_query(requirement: Requirement) -> str | None:
    """Return a requirement as in a query string; None if it has no such form."""
    key, values = requirement.key, ",".join(requirement.values)
    match requirement.operator:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
    return None


def is_dns_label(text: str) -> bool:
    """Return whether a text is a DNS label, as the names of Services, volumes and containers."""
    return _DNS_LABEL.fullmatch(text) is not None


def is_key(text: str) -> bool:
    """Return whether a text is a label key: `name` or `prefix/name`."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


def is_value(text: str) -> bool:
    """Return whether a text is a label value."""
    return not text or _NAME.fullmatch(text) is not None


def check_labels(errors: FieldErrors, path: FieldPath, labels: JsonObject) -> None:
    """Add the errors of labels that Kubernetes would reject."""
    for key, value in labels.items():
        if not is_key(key):
            errors.invalid(path, key, "is not the key of a label")
        if not is_value(value):
            errors.invalid(path.key(key), value, "is not the value of a label")


def check_selector(errors: FieldErrors, path: FieldPath, selector: JsonObject) -> None:
    """Add the errors of a selector that Kubernetes would reject."""
    check_labels(errors, path.child("matchLabels"), selector.get("matchLabels") or {})
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        where = path.child("matchExpressions").index(index)
        key, operator, values = expression["key"], expression["operator"], expression.get("values") or ()
        if not is_key(key):
            errors.invalid(where.child("key"), key, "is not the key of a label")
        if operator not in OPERATORS:
            errors.not_supported(where.child("operator"), operator, OPERATORS)
        elif operator in _WITH_VALUES and not values:
            errors.required(where.child("values"), f"must be set, because operator is {operator}")
        elif operator not in _WITH_VALUES and values:
            errors.forbidden(where.child("values"), f"must not be set, because operator is {operator}")
        for at, value in enumerate(values):
            if not is_value(value):
                errors.invalid(where.child("values").index(at), value, "is not the value of a label")
