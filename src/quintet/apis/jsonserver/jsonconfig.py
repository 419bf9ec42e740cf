"""Whether a text is data that can be served, and what json-server will make of it.

Pure. `examine` parses once and finds both what makes the text no JSON object, with line and
column or path, and what is a JSON object all right but not what json-server 0.17 can serve.
Asked by `validation`, and again by the controller, since webhooks can be bypassed.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

from quintet.apis.jsonserver.types import MAX_CONFIG_BYTES

_MOST_DOUBTS = 5
# A constant outside of strings; strings are matched too, so that one inside is not found.
_STRING_OR_CONSTANT = re.compile(r'"(?:\\.|[^"\\])*"|NaN|-?Infinity')
# Go's encoder, which writes what etcd keeps, spends six bytes on each of these.
_SIX_BYTES = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f<>&\u2028\u2029]")
_TWO_BYTES = re.compile('["\\\\\n\r\t]')


class _Object(list[tuple[str, Any]]):
    """A JSON object as its pairs, so that duplicate keys are not lost."""


class Findings(NamedTuple):
    """What is to be said about a text."""

    problem: str | None = None
    """What keeps it from being the data of a JsonServer, in words."""
    doubts: tuple[str, ...] = ()
    """What json-server cannot serve of it, each with its path."""


def examine(text: str) -> Findings:
    """Everything there is to say about a text."""
    try:
        data = _data(text)
        twice = next(_duplicates(data, ""), None)
    except _ProblemError as error:
        return Findings(str(error))
    except RecursionError:
        return Findings("nested too deeply to be served")
    if twice is not None:
        return Findings(f"{twice}: this key is there twice")
    found = tuple(_doubts(data))
    if len(found) > _MOST_DOUBTS:
        found = (*found[:_MOST_DOUBTS], f"and {len(found) - _MOST_DOUBTS} more of this sort")
    return Findings(doubts=found)


class _ProblemError(ValueError):
    pass


def _data(text: str) -> _Object:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise _ProblemError(f"{_position(text, error.start)}: not valid UTF-8") from error
    _check_size(text, size)
    try:
        # Integers stay text: json-server compares ids as text, and none is too long for us.
        data = json.loads(text, object_pairs_hook=_Object, parse_constant=_refuse_constant, parse_int=str)
    except json.JSONDecodeError as error:
        said = f"{error.msg[0].lower()}{error.msg[1:]}"
        raise _ProblemError(f"line {error.lineno}, column {error.colno}: {said}") from error
    except _ConstantError as error:
        where = _position(text, _constant_at(text))
        raise _ProblemError(f"{where}: {error} is not a JSON value") from error
    if not isinstance(data, _Object):
        raise _ProblemError(f"the top level must be an object, not {_kind(data)}")
    return data


def escaped_size(text: str, size: int) -> int:
    """Bytes of a text once it stands, quoted and escaped, in the stored object."""
    wide = sum(6 - len(match.encode()) for match in _SIX_BYTES.findall(text))
    return size + 2 + wide + len(_TWO_BYTES.findall(text))


def _check_size(text: str, size: int) -> None:
    if size > MAX_CONFIG_BYTES:
        raise _ProblemError(f"{size} bytes are more than the {MAX_CONFIG_BYTES} that a ConfigMap takes")
    escaped = escaped_size(text, size)
    if escaped > MAX_CONFIG_BYTES:
        raise _ProblemError(
            f"{escaped} bytes once its quotes are escaped are more than the {MAX_CONFIG_BYTES} that fit"
        )


class _ConstantError(ValueError):
    pass


def _refuse_constant(name: str) -> NoReturn:
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


def _doubts(data: _Object) -> Iterator[str]:
    for key, value in data:
        if "/" in key:
            yield f"{key}: json-server cannot serve a key with '/'"
        if not isinstance(value, list):
            yield f"{key}: json-server serves only objects and arrays at the top level, not {_kind(value)}"
        elif not isinstance(value, _Object):
            yield from _item_doubts(key, value)


def _item_doubts(key: str, items: list[Any]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for index, item in enumerate(items):
        if not isinstance(item, _Object):
            continue
        identity = dict(item).get("id")
        if identity is None:
            yield f"{key}[{index}]: without an id it cannot be fetched by itself"
        elif (first := seen.setdefault(str(identity), index)) != index:
            yield f"{key}[{index}].id: {identity} is the id of {key}[{first}] too"
