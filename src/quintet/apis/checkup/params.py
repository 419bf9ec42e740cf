"""Parses and validates the parameters of a checkup. Pure."""

import json
import re
from typing import Any, Final, NamedTuple

from quintet.apis.checkup.contract import RUNTIME_VARIABLES, VARIABLES
from quintet.apis.fields import SPEC, FieldErrors, FieldPath

PATH: Final = SPEC.child("params")
MOST_PARAMS: Final = 256
MAX_PARAM_BYTES: Final = 128 * 1024
LONGEST_NAME: Final = 200

# Valid as a variable in every version of Kubernetes, and in a key of a ConfigMap.
_NAME = re.compile(r"[A-Za-z_][-._A-Za-z0-9]*")


class Params(NamedTuple):
    """The parsed parameters and their errors."""

    values: dict[str, str]
    errors: FieldErrors


def variable(name: str) -> str:
    """Return the environment variable that holds a parameter."""
    return name.upper()


def parse(given: Any) -> Params:
    """Parse parameters given as JSON text or as an object; None means no parameters."""
    errors = FieldErrors()
    pairs = _pairs(given, errors)
    values: dict[str, str] = {}
    taken: dict[str, str] = {}
    for name, value in pairs:
        if _good(name, value, taken, errors):
            values[name] = value
            taken[variable(name)] = name
    if len(values) > MOST_PARAMS:
        errors.too_many(PATH, len(values), MOST_PARAMS)
    if (
        sum(len(name) + len(value.encode(errors="replace")) for name, value in values.items())
        > MAX_PARAM_BYTES
    ):
        errors.too_long(PATH, MAX_PARAM_BYTES, "bytes")
    return Params(values, errors)


def _pairs(given: Any, errors: FieldErrors) -> list[tuple[str, Any]]:
    if given is None or given == "":
        return []
    if isinstance(given, dict):
        return list(given.items())
    if not isinstance(given, str):
        errors.type_invalid(PATH, given, "text that holds a JSON object, or object")
        return []
    try:
        decoded = json.loads(given, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        errors.invalid(PATH, given, f"not JSON: {where}: {error.msg[0].lower()}{error.msg[1:]}")
        return []
    except RecursionError:
        errors.invalid(PATH, given[:80], "nested too deeply")
        return []
    if not isinstance(decoded, _Pairs):
        errors.invalid(PATH, given, 'must be a JSON object, such as {"message": "Hi!"}')
        return []
    return decoded


class _Pairs(list[tuple[str, Any]]):
    """Return a JSON object as its pairs, so that duplicate keys are not lost."""


def _good(name: str, value: Any, taken: dict[str, str], errors: FieldErrors) -> bool:
    path, before = PATH.key(name), len(errors)
    if len(name) > LONGEST_NAME:
        errors.too_long(path, LONGEST_NAME)
    elif not _NAME.fullmatch(name):
        errors.invalid(
            path,
            name,
            "is no name for a variable: it must start with a letter or '_' and hold only letters, digits, "
            "'_', '-' and '.'",
        )
    _check_variable(name, taken, path, errors)
    if not isinstance(value, str):
        quoted = (
            "write it as a text, in quotes"
            if isinstance(value, int | float)
            else "nested values cannot be passed"
        )
        errors.invalid(path, value, "must be a string", quoted)
    elif "\0" in value:
        errors.invalid(path, value, "must not hold the character NUL")
    return len(errors) == before


def _check_variable(name: str, taken: dict[str, str], path: FieldPath, errors: FieldErrors) -> None:
    wanted = variable(name)
    if wanted in VARIABLES:
        errors.forbidden(path, f"{wanted} tells the checkup where its results go: choose another name")
    elif wanted in RUNTIME_VARIABLES:
        errors.forbidden(path, f"{wanted} is needed to run the image: choose another name")
    elif (other := taken.get(wanted)) is not None:
        same = "is there twice" if other == name else f"and '{other}' are both the variable {wanted}"
        errors.invalid(path, name, f"{same}: choose another name")
