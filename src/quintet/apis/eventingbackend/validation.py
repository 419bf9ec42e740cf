"""Defaults, mistakes and warnings of an EventingBackend as it was written.

Pure. `config_faults` finds every mistake of a config at once; status, webhooks, `quintet validate`
and the what-if of `discovery` all show its list. An unknown `spec.type` has no catalog to check
against and is refused; mistakes in `spec.config` are warnings, unless `reject` is asked for.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from quintet.apis.eventingbackend.catalog import CATALOG, BackendType, Catalog, DataType, Key
from quintet.apis.eventingbackend.effective import effective, required
from quintet.apis.eventingbackend.entries import entries
from quintet.apis.eventingbackend.types import (
    LABEL,
    LONGEST_NAME,
    MOST_FAULTS,
    ConfigFault,
    FaultType,
)
from quintet.apis.eventingbackend.values import EXAMPLES, meaning, shown, text_of
from quintet.apis.fields import SPEC, FieldError, FieldErrors, Kind
from quintet.apis.meta import JsonObject

CONFIG: Final = SPEC.child("config")
_KINDS: Final = {
    FaultType.DATA_TYPE: Kind.TYPE_INVALID,
    FaultType.VALUE: Kind.INVALID,
    FaultType.UNSUPPORTED: Kind.NOT_SUPPORTED,
}


class Judgement(NamedTuple):
    """What is to be said about an object."""

    errors: tuple[FieldError, ...]
    """What it is refused for."""
    warnings: tuple[str, ...]
    """What the user should know."""


def default(obj: JsonObject, catalog: Catalog = CATALOG) -> JsonObject:
    """The object as it is stored when somebody creates it: labelled, and with every required key."""
    metadata, written = dict(obj.get("metadata") or {}), obj.get("spec") or {}
    metadata["labels"] = {LABEL[0]: LABEL[1], **(metadata.get("labels") or {})}
    if not isinstance(written, dict):
        return {**obj, "metadata": metadata}
    spec = dict(written)
    backend, config = catalog.get(str(spec.get("type"))), spec.get("config")
    # A config of the wrong form is left as it is, so that the user is told about what they wrote.
    if backend is not None and (config is None or isinstance(config, list)):
        names = (name for name, _ in entries(config).pairs)
        added = [{name: value} for name, value in required(backend, names).items()]
        if added:
            spec["config"] = [*(config or ()), *added]
    return {**obj, "metadata": metadata, "spec": spec}


def judge(obj: JsonObject, *, reject: bool = False, catalog: Catalog = CATALOG) -> Judgement:
    """Look at an object as it was written; `reject` refuses mistakes in its config as well."""
    spec = obj.get("spec") or {}
    errors = type_errors(spec.get("type"), catalog)
    if errors:
        return Judgement(tuple(errors), ())
    backend = catalog[spec["type"]]
    faults = field_errors(config_faults(backend, spec.get("config"), catalog))
    hints = deprecations(backend, spec.get("config"))
    if reject:
        return Judgement(faults, hints)
    return Judgement((), (*map(str, faults), *hints))


def type_errors(type_name: Any, catalog: Catalog = CATALOG) -> list[FieldError]:
    """What is wrong with `spec.type`."""
    errors = FieldErrors()
    if type_name is None:
        errors.required(SPEC.child("type"), f"must be one of {_listed(catalog)}")
    elif not isinstance(type_name, str):
        errors.type_invalid(SPEC.child("type"), type_name, "string")
    elif type_name not in catalog:
        errors.not_supported(SPEC.child("type"), type_name, catalog)
    return list(errors)


def field_errors(faults: Iterable[ConfigFault]) -> tuple[FieldError, ...]:
    """The same mistakes, as webhooks and `quintet validate` say them."""
    return tuple(
        FieldError(CONFIG.key(fault.config), _KINDS[fault.type], fault.value, fault.error) for fault in faults
    )


def deprecations(backend: BackendType, config: Any) -> tuple[str, ...]:
    """What still works but will not for ever."""
    return tuple(
        f"{CONFIG.key(name)}: is deprecated: {key.deprecated}"
        for name, _ in entries(config).pairs
        if (key := backend.key(name)) is not None and key.deprecated
    )


def config_faults(backend: BackendType, config: Any, catalog: Catalog = CATALOG) -> tuple[ConfigFault, ...]:
    """Every mistake of a config, in the order in which it was written; what is missing comes last."""
    pairs, of_form = entries(config)
    faults = [*of_form, *_pair_faults(backend, pairs, catalog)]
    given = {name for name, _ in pairs}
    faults += (
        ConfigFault(FaultType.VALUE, key.name, "", "must be set")
        for key in backend.keys
        if key.required and key.default is None and key.name not in given
    )
    faults += _faults_together(backend, good_values(pairs, faults), faults)
    if len(faults) > MOST_FAULTS:
        more = f"{len(faults) - MOST_FAULTS + 1} more mistakes are not listed"
        faults[MOST_FAULTS - 1 :] = [ConfigFault(FaultType.VALUE, "config", "", more)]
    return tuple(faults)


def good_values(pairs: Sequence[tuple[str, Any]], faults: Iterable[ConfigFault]) -> dict[str, Any]:
    """The values of keys that nothing was said about."""
    wrong = {fault.config for fault in faults}
    return {name: value for name, value in pairs if _name(name) not in wrong}


def _pair_faults(
    backend: BackendType, pairs: Iterable[tuple[str, Any]], catalog: Catalog
) -> Iterator[ConfigFault]:
    seen: set[str] = set()
    for name, value in pairs:
        key = backend.key(name)
        text = shown(key, name, value, faulty=True)
        if key is None:
            yield ConfigFault(FaultType.UNSUPPORTED, _name(name), text, _unsupported(backend, name, catalog))
        elif meaning(key.data_type, value) is None:
            yield ConfigFault(FaultType.DATA_TYPE, key.name, text, _of_type(key, value))
        elif problem := _value_problem(key, value):
            yield ConfigFault(FaultType.VALUE, key.name, text, problem)
        if key is not None and name in seen:
            yield ConfigFault(FaultType.VALUE, key.name, text, "must be set only once")
        seen.add(name)


def _faults_together(
    backend: BackendType, values: Mapping[str, Any], faults: Iterable[ConfigFault]
) -> Iterator[ConfigFault]:
    """Mistakes that only two keys make together, each looked for where both are right by themselves."""
    wrong = {fault.config for fault in faults}
    complete = effective(backend, values)
    for key in backend.keys:
        if not key.outside or key.name in wrong or key.outside in wrong:
            continue
        subject, prefix = complete.text(key.name), complete.text(key.outside)
        if f"{subject}.".startswith(f"{prefix}."):
            error = f"must not be under the subject '{prefix}' that {key.outside} names"
            yield ConfigFault(FaultType.VALUE, key.name, shown(key, key.name, subject, faulty=True), error)


def _of_type(key: Key, value: Any) -> str:
    text = f"should be of type {key.data_type}"
    if key.data_type in EXAMPLES:
        return f"{text}, such as {EXAMPLES[key.data_type]}"
    if key.data_type is DataType.INT and isinstance(value, str) and re.fullmatch("-?[0-9]+", value):
        return f"{text} (write it without quotes)"
    if key.data_type is DataType.STRING and isinstance(value, int | float):
        return f"{text} (write it in quotes)"
    return text


def _value_problem(key: Key, value: Any) -> str:
    read = meaning(key.data_type, value)
    if isinstance(read, str):
        return _text_problem(key, read)
    lowest, highest = meaning(key.data_type, key.minimum), meaning(key.data_type, key.maximum)
    if isinstance(read, Decimal) and isinstance(lowest, Decimal) and isinstance(highest, Decimal):
        if not lowest <= read <= highest:
            return f"must be set between {key.minimum} and {key.maximum}"
        if key.data_type is DataType.QUANTITY and read != read.to_integral_value():
            return "must be a whole number"
    return ""


def _text_problem(key: Key, text: str) -> str:
    if key.allowed:
        if text in key.allowed:
            return ""
        return f"must be one of {_listed(key.allowed)}{_suggestion(text, key.allowed)}"
    if not text:
        return "must not be empty"
    if key.longest is not None and len(text) > key.longest:
        return f"must not be longer than {key.longest} characters"
    if key.pattern is not None and re.fullmatch(key.pattern.expression, text) is None:
        return key.pattern.words
    return ""


def _unsupported(backend: BackendType, name: str, catalog: Catalog) -> str:
    text = f"config does not exist for backend type {backend.name}"
    others = [other.name for other in catalog.values() if other.key(name) is not None]
    if others:
        return f"{text} (it does for {_listed(others)})"
    return text + _suggestion(name, (key.name for key in backend.keys))


def _suggestion(written: str, names: Iterable[str]) -> str:
    # As people compare names: without regard to case.
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(written[:LONGEST_NAME].lower(), by_lower, n=1, cutoff=0.7)
    return f" (did you mean '{by_lower[near[0]]}'?)" if near else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _name(name: str) -> str:
    return text_of(name)[:LONGEST_NAME]
