"""Defaults and validation of EventingBackends. Pure functions on undecoded objects.

`config_faults` finds all errors of a config at once; the status, the webhooks, `quintet validate` and the
discovery API report its list. An unknown `spec.type` is always an error; errors in `spec.config` are
warnings unless `reject` is set.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from quintet.apis.eventingbackend.catalog import CATALOG, Catalog
from quintet.apis.eventingbackend.effective import effective, missing_defaults
from quintet.apis.eventingbackend.entries import entries
from quintet.apis.eventingbackend.keys import BackendType, DataType, Key
from quintet.apis.eventingbackend.types import (
    LABEL,
    LONGEST_NAME,
    MOST_FAULTS,
    ConfigFault,
    FaultType,
)
from quintet.apis.eventingbackend.values import EXAMPLES, meaning, shown, text_of
from quintet.apis.fields import SPEC, ErrorType, FieldError, FieldErrors, ValidationResult
from quintet.apis.meta import JsonObject

CONFIG: Final = SPEC.child("config")
_KINDS: Final = {
    FaultType.DATA_TYPE: ErrorType.TYPE_INVALID,
    FaultType.VALUE: ErrorType.INVALID,
    FaultType.UNSUPPORTED: ErrorType.NOT_SUPPORTED,
}


def default(obj: JsonObject, catalog: Catalog = CATALOG) -> JsonObject:
    """Return the object with its default label and with a default for every required option."""
    metadata, written = dict(obj.get("metadata") or {}), obj.get("spec") or {}
    metadata["labels"] = {LABEL[0]: LABEL[1], **(metadata.get("labels") or {})}
    if not isinstance(written, dict):
        return {**obj, "metadata": metadata}
    spec = dict(written)
    backend, config = catalog.get(str(spec.get("type"))), spec.get("config")
    # A config of the wrong type is kept, so that the error shows what the user wrote.
    if backend is not None and (config is None or isinstance(config, list)):
        names = (name for name, _ in entries(config).pairs)
        added = [{name: value} for name, value in missing_defaults(backend, names).items()]
        if added:
            spec["config"] = [*(config or ()), *added]
    return {**obj, "metadata": metadata, "spec": spec}


def validate(obj: JsonObject, *, reject: bool = False, catalog: Catalog = CATALOG) -> ValidationResult:
    """Validate an object; with `reject`, errors in its config are errors instead of warnings."""
    spec = obj.get("spec") or {}
    errors = type_errors(spec.get("type"), catalog)
    if errors:
        return ValidationResult(tuple(errors), ())
    backend = catalog[spec["type"]]
    faults = field_errors(config_faults(backend, spec.get("config"), catalog))
    warnings = deprecation_warnings(backend, spec.get("config"))
    if reject:
        return ValidationResult(faults, warnings)
    return ValidationResult((), (*map(str, faults), *warnings))


def type_errors(type_name: Any, catalog: Catalog = CATALOG) -> list[FieldError]:
    """Return the errors of `spec.type`."""
    errors = FieldErrors()
    if type_name is None:
        errors.required(SPEC.child("type"), f"must be one of {_join(catalog)}")
    elif not isinstance(type_name, str):
        errors.type_invalid(SPEC.child("type"), type_name, "string")
    elif type_name not in catalog:
        errors.not_supported(SPEC.child("type"), type_name, catalog)
    return list(errors)


def field_errors(faults: Iterable[ConfigFault]) -> tuple[FieldError, ...]:
    """Return the faults as field errors, for webhooks and `quintet validate`."""
    return tuple(
        FieldError(CONFIG.key(fault.config), _KINDS[fault.type], fault.value, fault.error) for fault in faults
    )


def deprecation_warnings(backend: BackendType, config: Any) -> tuple[str, ...]:
    """Return a warning for each deprecated option in the config."""
    return tuple(
        f"{CONFIG.key(name)}: is deprecated: {key.deprecated}"
        for name, _ in entries(config).pairs
        if (key := backend.key(name)) is not None and key.deprecated
    )


def config_faults(backend: BackendType, config: Any, catalog: Catalog = CATALOG) -> tuple[ConfigFault, ...]:
    """Return all errors of a config, in the order of its entries; missing options come last."""
    pairs, form_faults = entries(config)
    faults = [*form_faults, *_pair_faults(backend, pairs, catalog)]
    given = {name for name, _ in pairs}
    faults += (
        ConfigFault(FaultType.VALUE, key.name, "", "must be set")
        for key in backend.keys
        if key.required and key.default is None and key.name not in given
    )
    faults += _combined_faults(backend, good_values(pairs, faults), faults)
    if len(faults) > MOST_FAULTS:
        more = f"{len(faults) - MOST_FAULTS + 1} more errors are not listed"
        faults[MOST_FAULTS - 1 :] = [ConfigFault(FaultType.VALUE, "config", "", more)]
    return tuple(faults)


def good_values(pairs: Sequence[tuple[str, Any]], faults: Iterable[ConfigFault]) -> dict[str, Any]:
    """Return the values of the options without faults."""
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
            yield ConfigFault(
                FaultType.UNSUPPORTED, _name(name), text, _unsupported_problem(backend, name, catalog)
            )
        elif meaning(key.data_type, value) is None:
            yield ConfigFault(FaultType.DATA_TYPE, key.name, text, _type_problem(key, value))
        elif problem := _value_problem(key, value):
            yield ConfigFault(FaultType.VALUE, key.name, text, problem)
        if key is not None and name in seen:
            yield ConfigFault(FaultType.VALUE, key.name, text, "must be set only once")
        seen.add(name)


def _combined_faults(
    backend: BackendType, values: Mapping[str, Any], faults: Iterable[ConfigFault]
) -> Iterator[ConfigFault]:
    """Yield the faults of two options in combination, unless one of them is faulty by itself."""
    wrong = {fault.config for fault in faults}
    complete = effective(backend, values)
    for key in backend.keys:
        if not key.outside or key.name in wrong or key.outside in wrong:
            continue
        subject, prefix = complete.text(key.name), complete.text(key.outside)
        if f"{subject}.".startswith(f"{prefix}."):
            error = f"must not be under the subject '{prefix}' that {key.outside} names"
            outer = backend.key(key.outside)
            if outer is not None and key.name not in values:
                # The user has set only the prefix.
                error = f"must not contain the subject '{subject}', the default of {key.name}"
                key, subject = outer, prefix
            yield ConfigFault(FaultType.VALUE, key.name, shown(key, key.name, subject, faulty=True), error)


def _type_problem(key: Key, value: Any) -> str:
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
        return f"must be one of {_join(key.allowed)}{_suggestion(text, key.allowed)}"
    if not text:
        return "must not be empty"
    if key.longest is not None and len(text) > key.longest:
        return f"must not be longer than {key.longest} characters"
    if key.pattern is not None and re.fullmatch(key.pattern.expression, text) is None:
        return key.pattern.words
    return ""


def _unsupported_problem(backend: BackendType, name: str, catalog: Catalog) -> str:
    text = f"config does not exist for backend type {backend.name}"
    others = [other.name for other in catalog.values() if other.key(name) is not None]
    if others:
        return f"{text} (it does for {_join(others)})"
    return text + _suggestion(name, (key.name for key in backend.keys))


def _suggestion(written: str, names: Iterable[str]) -> str:
    # Names are compared case-insensitively.
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(written[:LONGEST_NAME].lower(), by_lower, n=1, cutoff=0.7)
    return f" (did you mean '{by_lower[near[0]]}'?)" if near else ""


def _join(names: Iterable[str]) -> str:
    return ", ".join(names)


def _name(name: str) -> str:
    return text_of(name)[:LONGEST_NAME]
