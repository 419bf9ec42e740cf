"""Defaults and validation of Subscriptions. Pure functions on undecoded objects.

The controller validates again, because an object may have bypassed the webhooks, and checks the sink.
"""

import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from quintet.apis.fields import SPEC, FieldError, FieldErrors, FieldPath, ValidationResult
from quintet.apis.meta import JsonObject
from quintet.apis.subscription import wildcards
from quintet.apis.subscription.cleaning import NOT_IN_TYPES, clean_source, clean_type
from quintet.apis.subscription.delivery import check_delivery
from quintet.apis.subscription.filters import check_filters
from quintet.apis.subscription.types import FINALIZER, IN_FLIGHT_RULE, MOST_IN_FLIGHT, TypeMatching

SUFFIX: Final = "svc.cluster.local"
FEWEST_SEGMENTS: Final = 2

EMPTY: Final = "must not be empty"
DUPLICATE_TYPES: Final = "must not have duplicate types"
ZERO_LENGTH: Final = "must not be of length zero"
TOO_FEW_SEGMENTS: Final = "must have minimum 2 segments"
NO_URL: Final = "is not a URL: check host and port"
SCHEME: Final = "must have URL scheme 'http' or 'https'"
SINK_SUFFIX: Final = f"must have valid sink URL suffix {SUFFIX}"
SUB_DOMAINS: Final = "must have sink URL with 5 sub-domains"
SAME_NAMESPACE: Final = "must have the same namespace as the subscriber"


def default(obj: JsonObject) -> JsonObject:
    """Return the object with our finalizer."""
    metadata = dict(obj.get("metadata") or {})
    finalizers = list(metadata.get("finalizers") or ())
    if FINALIZER not in finalizers:
        metadata["finalizers"] = [*finalizers, FINALIZER]
    return {**obj, "metadata": metadata}


def validate(obj: JsonObject) -> ValidationResult:
    """Validate an object."""
    namespace = (obj.get("metadata") or {}).get("namespace", "")
    return ValidationResult(tuple(spec_errors(obj.get("spec") or {}, namespace)))


def spec_errors(spec: JsonObject, namespace: str) -> list[FieldError]:
    """Return the errors of a spec in a namespace; no events are delivered while there are any."""
    errors = FieldErrors()
    _check_source(errors, spec.get("source"))
    _check_types(errors, spec.get("types"), spec.get("typeMatching"))
    matching = spec.get("typeMatching", TypeMatching.STANDARD)
    if matching not in tuple(TypeMatching):
        errors.not_supported(SPEC.child("typeMatching"), str(matching), tuple(TypeMatching))
    check_filters(errors, SPEC.child("filters"), spec.get("filters"))
    _check_config(errors, spec.get("config"))
    check_delivery(errors, SPEC.child("delivery"), spec.get("delivery"))
    _check_sink(errors, spec.get("sink"), namespace)
    return list(errors)


def _check_source(errors: FieldErrors, source: Any) -> None:
    path = SPEC.child("source")
    if source is not None and not isinstance(source, str):
        errors.type_invalid(path, source, "string")
    elif not source:
        errors.invalid(path, "", EMPTY)
    elif not clean_source(source):
        errors.invalid(path, source, "contains only characters that are not allowed in a NATS subject")


def _check_types(errors: FieldErrors, types: Any, matching: Any) -> None:
    path = SPEC.child("types")
    if types is not None and not isinstance(types, list | tuple):
        errors.type_invalid(path, types, "list")
        return
    if not types:
        errors.invalid(path, [], EMPTY)
        return
    seen: dict[str, str] = {}
    for index, written in enumerate(types):
        where = path.index(index)
        if not isinstance(written, str):
            errors.type_invalid(where, written, "string")
            continue
        if problem := _type_problem(written, matching):
            errors.invalid(where, written, problem)
        elif matching == TypeMatching.WILDCARD:
            _check_overlap(errors, where, written, types[:index])
            continue
        other = seen.setdefault(clean_type(written), written)
        if written in types[:index]:
            errors.invalid(where, written, DUPLICATE_TYPES)
        elif other != written:
            errors.invalid(where, written, f"{DUPLICATE_TYPES}: it matches the same events as '{other}'")


def _check_overlap(errors: FieldErrors, path: FieldPath, pattern: str, others: Sequence[Any]) -> None:
    for other in others:
        if pattern == other:
            errors.invalid(path, pattern, DUPLICATE_TYPES)
        elif isinstance(other, str) and wildcards.overlap(pattern, other):
            errors.invalid(path, pattern, f"must not match events that '{other}' matches too")


def _type_problem(written: str, matching: Any) -> str:
    if not written:
        return ZERO_LENGTH
    exact, wildcard = matching == TypeMatching.EXACT, matching == TypeMatching.WILDCARD
    if exact and any(character in written for character in NOT_IN_TYPES):
        return "must not contain a space or one of > * / \\ while typeMatching is exact"
    if wildcard and any(character in written for character in " /\\"):
        return "must not contain a space or one of / \\ while typeMatching is wildcard"
    if wildcard and (problem := wildcards.pattern_problem(written)):
        return problem
    segments = (written if wildcard else clean_type(written)).split(".")
    if len(segments) < FEWEST_SEGMENTS:
        return TOO_FEW_SEGMENTS
    return "must not have empty segments" if "" in segments else ""


def _check_config(errors: FieldErrors, config: Any) -> None:
    path = SPEC.child("config")
    if config is None:
        return
    if not isinstance(config, dict):
        errors.type_invalid(path, config, "object")
        return
    given = config.get("maxInFlightMessages")
    if given is not None and not _in_bounds(given):
        errors.invalid(path.child("maxInFlightMessages"), given, IN_FLIGHT_RULE)


def _in_bounds(given: Any) -> bool:
    if isinstance(given, str):
        return re.fullmatch("[1-9][0-9]{0,4}", given) is not None and int(given) <= MOST_IN_FLIGHT
    return isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= MOST_IN_FLIGHT


def _check_sink(errors: FieldErrors, sink: Any, namespace: str) -> None:
    path = SPEC.child("sink")
    if sink is not None and not isinstance(sink, str):
        errors.type_invalid(path, sink, "string")
    elif not sink:
        errors.invalid(path, "", EMPTY)
    elif problem := _sink_problem(sink, namespace):
        # A URL may contain a password, which an error must not repeat.
        shown = re.sub(r"^([a-z]+:/*)?.*@", r"\1***@", sink, flags=re.DOTALL)
        errors.invalid(path, shown, problem)


def _sink_problem(sink: str, namespace: str) -> str:
    if not sink.startswith(("http://", "https://")):
        return SCHEME
    # The URL parser silently drops some characters, so the checked URL would differ from the one called.
    if re.search(r"[^!-~]", sink):
        return "must contain only visible ASCII characters"
    try:
        parts = urlsplit(sink)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return NO_URL
    if port == 0:
        return NO_URL
    if "@" in parts.netloc:
        return "must not contain a user or password"
    if not host.endswith(f".{SUFFIX}"):
        return SINK_SUFFIX
    labels = host.split(".")
    if len(labels) != 5 or not all(re.fullmatch("[a-z0-9]([a-z0-9-]*[a-z0-9])?", label) for label in labels):
        return SUB_DOMAINS
    if labels[1] != namespace:
        return f"{SAME_NAMESPACE}, which is '{namespace}'" if namespace else SAME_NAMESPACE
    return ""
