"""Filters of events, in the dialects of the CloudEvents Subscriptions API. Pure."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from quintet.apis.fields import FieldErrors, FieldPath
from quintet.apis.meta import JsonObject

MOST_FILTERS: Final = 64
"""The most expressions in all filters of a Subscription."""
DEEPEST: Final = 5
LONGEST_VALUE: Final = 256
_ATTRIBUTE: Final = re.compile("[a-z0-9]{1,64}")


class Dialect(StrEnum):
    """The dialects of filter expressions."""

    EXACT = "exact"
    PREFIX = "prefix"
    SUFFIX = "suffix"
    ALL = "all"
    ANY = "any"
    NOT = "not"


_OF_ATTRIBUTES: Final = (Dialect.EXACT, Dialect.PREFIX, Dialect.SUFFIX)


def matches(filters: Iterable[JsonObject], attributes: Mapping[str, str]) -> bool:
    """Return whether the attributes of an event fit all of these valid filters."""
    return all(_matches(each, attributes) for each in filters)


def _matches(expression: JsonObject, attributes: Mapping[str, str]) -> bool:
    ((dialect, operand),) = expression.items()
    match dialect:
        case Dialect.ALL:
            return all(_matches(each, attributes) for each in operand)
        case Dialect.ANY:
            return any(_matches(each, attributes) for each in operand)
        case Dialect.NOT:
            return not _matches(operand, attributes)
        case Dialect.PREFIX:
            return all(attributes.get(name, "").startswith(value) for name, value in operand.items())
        case Dialect.SUFFIX:
            return all(attributes.get(name, "").endswith(value) for name, value in operand.items())
    return all(attributes.get(name) == value for name, value in operand.items())


def check_filters(errors: FieldErrors, path: FieldPath, filters: Any) -> None:
    """Add the errors of filters; each names its position."""
    if filters is None:
        return
    if not isinstance(filters, list | tuple):
        errors.type_invalid(path, filters, "list")
        return
    count = _Counter()
    for index, each in enumerate(filters):
        _check(errors, path.index(index), each, 1, count)
    if count.expressions > MOST_FILTERS:
        errors.too_many(path, count.expressions, MOST_FILTERS)


class _Counter:
    expressions = 0


def _check(errors: FieldErrors, path: FieldPath, expression: Any, depth: int, count: _Counter) -> None:
    count.expressions += 1
    if count.expressions > MOST_FILTERS:
        return
    if not isinstance(expression, dict):
        errors.type_invalid(path, expression, "object")
        return
    if len(expression) != 1:
        errors.invalid(path, sorted(map(str, expression)), f"must have exactly one of {', '.join(Dialect)}")
        return
    ((name, operand),) = expression.items()
    if name not in tuple(Dialect):
        errors.not_supported(path, str(name), tuple(Dialect))
        return
    where = path.child(name)
    if name in _OF_ATTRIBUTES:
        _check_attributes(errors, where, operand)
    elif depth >= DEEPEST:
        errors.invalid(where, "", f"must not be nested more than {DEEPEST} deep")
    elif name == Dialect.NOT:
        _check(errors, where, operand, depth + 1, count)
    elif not isinstance(operand, list | tuple):
        errors.type_invalid(where, operand, "list")
    elif not operand:
        errors.invalid(where, [], "must not be empty")
    else:
        for index, each in enumerate(operand):
            _check(errors, where.index(index), each, depth + 1, count)


def _check_attributes(errors: FieldErrors, path: FieldPath, operand: Any) -> None:
    if not isinstance(operand, dict):
        errors.type_invalid(path, operand, "object")
        return
    if not operand:
        errors.invalid(path, {}, "must not be empty")
    if len(operand) > MOST_FILTERS:
        errors.too_many(path, len(operand), MOST_FILTERS)
        return
    for name, value in operand.items():
        where = path.key(str(name))
        if not isinstance(name, str) or _ATTRIBUTE.fullmatch(name) is None or name == "data":
            errors.invalid(where, str(name)[:LONGEST_VALUE], "must be the name of a CloudEvents attribute")
        if not isinstance(value, str):
            errors.type_invalid(where, value, "string")
        elif not value:
            errors.invalid(where, "", "must not be empty")
        elif len(value) > LONGEST_VALUE:
            errors.too_long(where, LONGEST_VALUE)
