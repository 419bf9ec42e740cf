"""Validation of the options of json-server 0.17: what its pods would crash on or ignore. Pure."""

import re
from typing import Any, Final

from quintet.apis.fields import SPEC, FieldError, FieldErrors, FieldPath
from quintet.apis.jsonserver.types import ServiceType, Storage
from quintet.apis.labels import is_key
from quintet.apis.meta import JsonObject
from quintet.apis.quantity import amount

MOST_BODY_BYTES: Final = 10 * 1024 * 1024
"""The limit of json-server itself."""

_RESERVED = "quintet.dev"
# What its patterns (path-to-regexp 1) also permit, groups and modifiers, can be invalid or endless regexes.
_PATH = re.compile(r"/(?:[A-Za-z0-9_\-.~/=&%@+,;!]|\\\?|\*|:[A-Za-z_][A-Za-z0-9_]*+(?![?+*(]))*")
_TARGET = re.compile(r"/[!-~]*")
_PARTS = re.compile(r":(\w+)|\*")
_REFERENCES = re.compile(r"\$(\d+)|:(\w+)")


def body_limit(limit: Any) -> int:
    """Return `spec.bodyLimit` in bytes; 0 if it is none."""
    size = amount(limit)
    return int(size) if size is not None and size == int(size) and 0 < size <= MOST_BODY_BYTES else 0


def option_errors(spec: JsonObject) -> list[FieldError]:
    """Return the errors of the options; no pods are created while there are any."""
    errors = FieldErrors()
    if spec.get("readOnly") is False and spec.get("storage", Storage.READ_ONLY) == Storage.READ_ONLY:
        errors.forbidden(SPEC.child("readOnly"), "spec.storage is ReadOnly: set it to Ephemeral")
    limit = spec.get("bodyLimit")
    if limit is not None and not body_limit(limit):
        errors.invalid(SPEC.child("bodyLimit"), limit, "must be a size from 1 to 10Mi, such as 100Ki")
    delay = spec.get("delay") or {}
    shortest, longest = delay.get("milliseconds", 0), delay.get("maxMilliseconds")
    if longest is not None and longest < shortest:
        where = SPEC.child("delay", "maxMilliseconds")
        errors.invalid(where, longest, f"must be at least spec.delay.milliseconds, which is {shortest}")
    total = sum(fault.get("percent", 0) for fault in spec.get("faults") or ())
    if total > 100:
        errors.invalid(SPEC.child("faults"), total, "the percentages must add up to at most 100")
    _check_routes(errors, spec.get("routes") or ())
    _check_service(errors, spec.get("service") or {})
    return list(errors)


def _check_service(errors: FieldErrors, service: JsonObject) -> None:
    where = SPEC.child("service")
    if (
        service.get("nodePort") is not None
        and service.get("type", ServiceType.CLUSTER_IP) == ServiceType.CLUSTER_IP
    ):
        errors.forbidden(where.child("nodePort"), "a Service of type ClusterIP has no port on the nodes")
    for key in service.get("annotations") or {}:
        path = where.child("annotations").key(key)
        if key.partition("/")[0] == _RESERVED:
            errors.forbidden(path, f"annotations of {_RESERVED} are reserved")
        elif not is_key(key):
            errors.invalid(path, key, "is not the key of an annotation")


def _check_routes(errors: FieldErrors, routes: Any) -> None:
    seen = set()
    for index, route in enumerate(routes):
        where = SPEC.child("routes").index(index)
        path, target = route.get("path", ""), route.get("target", "")
        if path in seen:
            errors.duplicate(where.child("path"), path)
        seen.add(path)
        if _PATH.fullmatch(path) is None:
            text = "must start with '/' and contain only characters of a URL, :name, * and \\? (a query)"
            errors.invalid(where.child("path"), path, text)
        elif _TARGET.fullmatch(target) is None:
            errors.invalid(where.child("target"), target, "must start with '/', without spaces")
        else:
            _check_references(errors, where.child("target"), path, target)


def _check_references(errors: FieldErrors, where: FieldPath, path: str, target: str) -> None:
    names = [part[1] for part in _PARTS.finditer(path)]
    for found in _REFERENCES.finditer(target):
        number, name = found.groups()
        if (name is not None and name not in names) or (number is not None and int(number) > len(names)):
            errors.invalid(where, target, f"'{found.group()}' stands for no part of the path '{path}'")
