"""Values that are taken from other objects. Pure; the controller reads the objects and hands them over.

A value of a Secret is never read: it becomes a reference (`secretKeyRef`) that the pod resolves by itself.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from quintet.apis.casconfig import jsonpath, kinds
from quintet.apis.casconfig.places import ABSENT
from quintet.apis.casconfig.spec import FromOperation, ToType
from quintet.apis.labels import is_value
from quintet.apis.meta import JsonObject, ObjectKey

LONGEST_VALUE = 32768


class SecretKey(NamedTuple):
    """A value of a Secret: where it is, never what it is."""

    name: str
    key: str
    namespace: str


Value = str | SecretKey


class Waiting(NamedTuple):
    """A value that is not there (yet); nothing of the config is applied without it."""

    source: FromOperation
    reason: str
    """One word for programs."""
    message: str


class Fault(NamedTuple):
    """A mistake in a source: the field, its value, and why it is one."""

    field: str
    value: str
    message: str


class Resolved(NamedTuple):
    """All values of a config, or what is missing."""

    values: Mapping[FromOperation, Value]
    waiting: tuple[Waiting, ...] = ()


def is_secret(source: FromOperation) -> bool:
    """Whether the value is that of a Secret."""
    found = kinds.parse_kind(source.kind)
    return found is not None and found.kind == "Secret" and found.group in (None, "")


def key_of(source: FromOperation, own: str) -> ObjectKey:
    """Where the object is that a value is taken from."""
    return ObjectKey(source.namespace or own, source.name)


def resolve_sources(
    operations: Iterable[FromOperation], own: str, object_of: Callable[[FromOperation], JsonObject | None]
) -> Resolved:
    """The values, given a way to look objects up; of a Secret its metadata is enough."""
    values: dict[FromOperation, Value] = {}
    waiting = []
    for source in operations:
        found = _resolve(source, own, object_of(source))
        if isinstance(found, Waiting):
            waiting.append(found)
        else:
            values[source] = found
    return Resolved(values, tuple(waiting))


def _resolve(source: FromOperation, own: str, obj: JsonObject | None) -> Value | Waiting:
    place = f"{source.kind} {key_of(source, own)}"
    if obj is None:
        return Waiting(source, "SourceMissing", f"there is no {place}")
    if is_secret(source):
        return secret_key(source, own)
    found = jsonpath.value_at(obj, jsonpath.parse_path(source.path))
    text = _as_text(found)
    if found is ABSENT or found is None:
        return Waiting(source, "PathMissing", f"{place} has nothing at {source.path}")
    if text is None:
        return Waiting(source, "NotAScalar", f"{place} has neither text nor a number at {source.path}")
    if source.to_type is ToType.LABEL and not is_value(text):
        return Waiting(source, "NotALabel", f"what {place} has at {source.path} cannot be a label")
    if len(text) > LONGEST_VALUE:
        return Waiting(source, "TooLong", f"what {place} has at {source.path} is too long")
    return text


def secret_key(source: FromOperation, own: str) -> SecretKey:
    """The reference that stands for a value of a Secret; validation has seen to its path."""
    steps = jsonpath.parse_path(source.path)
    return SecretKey(source.name, str(steps[-1]), source.namespace or own)


def _as_text(value: Any) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | float():
            return str(value)
    return None


def fault(source: FromOperation) -> Fault | None:
    """What is wrong with a source as it was written; None if nothing is."""
    try:
        steps = jsonpath.parse_path(source.path)
    except jsonpath.JsonPathError as error:
        return Fault("path", source.path, str(error))
    if not is_secret(source):
        return None
    if source.to_type is not ToType.ENV:
        why = "a value of a Secret must not become a label or an annotation, where everybody can read it"
        return Fault("toType", source.to_type, why)
    if len(steps) != 2 or steps[0] not in ("data", "stringData") or not isinstance(steps[1], str):
        return Fault("path", source.path, "of a Secret it must be .data.<key> or .data['<key>']")
    return None
