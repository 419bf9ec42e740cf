"""Validation of `spec.jsonConfig`: is it a JSON object, and can json-server 0.17 serve all of it? Pure."""

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from quintet.apis.fields import ValidationResult
from quintet.apis.jsonserver.types import MAX_CONFIG_BYTES

_MOST_WARNINGS = 5
# Strings are matched too, so that constants inside of them are not found.
_STRING_OR_CONSTANT = re.compile(r'"(?:\\.|[^"\\])*"|NaN|-?Infinity')
# Go's JSON encoder, which writes objects to etcd, takes six bytes for each of these.
_SIX_BYTES = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f<>&\u2028\u2029]")
_TWO_BYTES = re.compile('["\\\\\n\r\t]')


class _Object(list[tuple[str, Any]]):
    """A JSON object as its pairs, so that duplicate keys are not lost."""


def validate_data(text: str, id_field: str = "id") -> ValidationResult:
    """Validate the data of a JsonServer: at most one error; warnings for what json-server cannot serve."""
    try:
        data = _parse(text)
        duplicate = next(_duplicates(data, ""), None)
    except _ProblemError as error:
        return ValidationResult((str(error),))
    except RecursionError:
        return ValidationResult(("nested too deeply to be served",))
    if duplicate is not None:
        return ValidationResult((f"{duplicate}: duplicate key",))
    found = tuple(_warnings(data, id_field))
    if len(found) > _MOST_WARNINGS:
        found = (*found[:_MOST_WARNINGS], f"and {len(found) - _MOST_WARNINGS} more warnings")
    return ValidationResult(warnings=found)


class _ProblemError(ValueError):
    pass


def _parse(text: str) -> _Object:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise _ProblemError(f"{_position(text, error.start)}: not valid UTF-8") from error
    _check_size(text, size)
    try:
        # Integers stay strings: json-server compares ids as strings, and no integer is too long.
        data = json.loads(text, object_pairs_hook=_Object, parse_constant=_reject_constant, parse_int=str)
    except json.JSONDecodeError as error:
        message = f"{error.msg[0].lower()}{error.msg[1:]}"
        raise _ProblemError(f"line {error.lineno}, column {error.colno}: {message}") from error
    except _ConstantError as error:
        where = _position(text, _constant_at(text))
        raise _ProblemError(f"{where}: {error} is not a JSON value") from error
    if not isinstance(data, _Object):
        raise _ProblemError(f"the top level must be an object, not {_kind(data)}")
    return data


def escaped_size(text: str, size: int) -> int:
    """Return the size in bytes of a text as a quoted and escaped JSON string in the stored object."""
    wide = sum(6 - len(match.encode()) for match in _SIX_BYTES.findall(text))
    return size + 2 + wide + len(_TWO_BYTES.findall(text))


def _check_size(text: str, size: int) -> None:
    if size > MAX_CONFIG_BYTES:
        raise _ProblemError(f"has {size} bytes, more than the {MAX_CONFIG_BYTES} that fit into a ConfigMap")
    escaped = escaped_size(text, size)
    if escaped > MAX_CONFIG_BYTES:
        raise _ProblemError(
            f"has {escaped} bytes once its quotes are escaped, more than the {MAX_CONFIG_BYTES} that fit"
        )


class _ConstantError(ValueError):
    pass


def _reject_constant(name: str) -> NoReturn:
    raise _ConstantError(name)


def _constant_at(text: str) -> int:
    return next((match.start() for match in _STRING_OR_CONSTANT.finditer(text) if match.group()[0] != '"'), 0)


def _position(text: str, index: int) -> str:
    line = text.count("\n", 0, index) + 1
    return f"line {line}, column {index - text.rfind(chr(10), 0, index)}"


def _kind(data: Any) -> str:
    if data is None:
        return "null"
    names: dict[type, str] = {
        list: "an array",
        bool: "a boolean",
        float: "a number",
        str: "a string or number",
    }
    return names.get(type(data), "a scalar")


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Object):
        seen = set()
        for key, item in value:
            if key in seen:
                yield f"{path}.{key}".removeprefix(".")
            seen.add(key)
            yield from _duplicates(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _duplicates(item, f"{path}[{index}]")


def _warnings(data: _Object, id_field: str) -> Iterator[str]:
    for key, value in data:
        if "/" in key:
            yield f"{key}: json-server cannot serve a key with '/'"
        if not isinstance(value, list):
            yield f"{key}: json-server serves only objects and arrays at the top level, not {_kind(value)}"
        elif not isinstance(value, _Object):
            yield from _item_warnings(key, value, id_field)


def _item_warnings(key: str, items: list[Any], id_field: str) -> Iterator[str]:
    seen: dict[str, int] = {}
    for index, item in enumerate(items):
        if not isinstance(item, _Object):
            continue
        identity = dict(item).get(id_field)
        if identity is None:
            named = "an id" if id_field == "id" else f"the field {id_field}"
            yield f"{key}[{index}]: json-server cannot fetch an item without {named}"
        elif (first := seen.setdefault(str(identity), index)) != index:
            yield f"{key}[{index}].{id_field}: {identity} is also the {id_field} of {key}[{first}]"
