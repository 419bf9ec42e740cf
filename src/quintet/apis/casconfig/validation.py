"""Defaults and validation of CASConfigs and of configs embedded in other kinds. Pure.

The controller validates again, because an object may have bypassed the webhooks.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from quintet.apis import labels
from quintet.apis.casconfig import kinds, sources
from quintet.apis.casconfig.ledger import RESERVED
from quintet.apis.casconfig.security import risks
from quintet.apis.casconfig.spec import CASConfigSpec, EmbeddedConfig, Include, Policy, Scope, ToType, Values
from quintet.apis.casconfig.types import FINALIZER
from quintet.apis.fields import SPEC, FieldError, FieldErrors, FieldPath, ValidationResult
from quintet.apis.meta import JsonObject

_NAME_PATTERN = re.compile(r"[a-z0-9*]([-a-z0-9.:*]*[a-z0-9*])?")
_OPERATORS: Final = ("", "Equal", "Exists", "Lt", "Gt")
_EFFECTS: Final = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")


def default(obj: JsonObject) -> JsonObject:
    """Return the normalized object with our finalizer."""
    metadata = dict(obj.get("metadata") or {})
    finalizers = list(metadata.get("finalizers") or ())
    if FINALIZER not in finalizers:
        metadata["finalizers"] = [*finalizers, FINALIZER]
    return {**normalize(obj), "metadata": metadata}


def normalize(obj: JsonObject) -> JsonObject:
    """Return the object with `maincontainer` renamed to `mainContainer`, and `from` as a list."""
    spec = obj.get("spec")
    policies = spec.get("policies") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(policies, list):
        return obj
    return {**obj, "spec": {**spec, "policies": [_normalize_policy(policy) for policy in policies]}}


def _normalize_policy(policy: Any) -> Any:
    """Return the normalized policy; a value of the wrong type is kept for validation to report."""
    values = _values(policy)
    if not values:
        return policy
    main = values.pop("maincontainer", None)
    if main is not None:
        values.setdefault("mainContainer", main)
    if isinstance(values.get("from"), dict):
        values["from"] = [values["from"]]
    return {**policy, "values": values}


def _values(policy: Any) -> JsonObject:
    found = policy.get("values") if isinstance(policy, dict) else None
    return dict(found) if isinstance(found, dict) else {}


def alias_warnings(obj: JsonObject) -> Iterator[str]:
    """Yield a warning for each change that `normalize` makes."""
    spec = obj.get("spec")
    policies = spec.get("policies") if isinstance(spec, dict) else None
    for index, policy in enumerate(policies if isinstance(policies, list) else ()):
        path, values = SPEC.child("policies").index(index).child("values"), _values(policy)
        if "maincontainer" in values:
            yield f"{path}.maincontainer: was renamed to mainContainer"
        if isinstance(values.get("from"), dict):
            yield f"{path}.from: was converted to a list of one item"


def validate(obj: JsonObject) -> ValidationResult:
    """Validate an object."""
    try:
        spec = msgspec.convert(obj.get("spec") or {}, CASConfigSpec)
    except msgspec.ValidationError as error:
        return ValidationResult((_decoding_error(error),), ())
    return ValidationResult(tuple(spec_errors(spec)), tuple(_warnings(spec)))


def _decoding_error(error: msgspec.ValidationError) -> FieldError:
    errors = FieldErrors()
    errors.invalid(SPEC, None, str(error))
    return errors.found[0]


def spec_errors(spec: CASConfigSpec) -> list[FieldError]:
    """Return the errors of a config; it is not applied while there are any."""
    errors = FieldErrors()
    _check_scope(errors, spec.scope, SPEC.child("scope"))
    return [*errors, *policy_errors(spec, SPEC)]


def policy_errors(spec: EmbeddedConfig, path: FieldPath) -> list[FieldError]:
    """Return the errors of the policies of a config at a path."""
    errors = FieldErrors()
    if not spec.policies:
        errors.required(path.child("policies"), "a config without policies does nothing")
    seen: set[str] = set()
    for index, policy in enumerate(spec.policies):
        where = path.child("policies").index(index)
        if policy.name in seen:
            errors.duplicate(where.child("name"), policy.name)
        seen.add(policy.name)
        _check_include(errors, policy.include, where.child("include"))
        _check_values(errors, policy.values, where.child("values"))
    return list(errors)


def _check_scope(errors: FieldErrors, scope: Scope, path: FieldPath) -> None:
    for index, namespace in enumerate(scope.namespaces):
        if not labels.is_dns_label(namespace):
            errors.invalid(path.child("namespaces").index(index), namespace, "is not the name of a namespace")


def _check_include(errors: FieldErrors, include: Include, path: FieldPath) -> None:
    if include.empty:
        errors.required(path, "must select objects: an empty include matches nothing")
    for index, text in enumerate(include.kinds):
        where = path.child("kinds").index(index)
        if kinds.parse_kind(text) is None:
            errors.invalid(where, text, "is neither Kind nor group/version/Kind")
        elif why := kinds.forbidden_text(text):
            errors.forbidden(where, f"a {text.rpartition('/')[2]} is never a target: {why}")
    for index, name in enumerate(include.names):
        if not _NAME_PATTERN.fullmatch(name):
            errors.invalid(path.child("names").index(index), name, "is not a valid name; * matches any text")
    labels.check_labels(errors, path.child("labels"), include.labels)


def _check_values(errors: FieldErrors, values: Values, path: FieldPath) -> None:
    if not (values.labels or values.annotations or values.sources or values.for_pods):
        errors.required(path, "must set something")
    labels.check_labels(errors, path.child("labels"), values.labels)
    for key in values.annotations:
        _check_annotation(errors, path.child("annotations"), key)
    for name in values.envs:
        _check_variable(errors, path.child("envs"), name)
    _check_containers(errors, values, path)
    for index, toleration in enumerate(values.tolerations):
        where = path.child("tolerations").index(index)
        for field, allowed in (("operator", _OPERATORS), ("effect", _EFFECTS)):
            if toleration.get(field, "") not in allowed:
                errors.not_supported(where.child(field), str(toleration[field]), allowed[1:])
    _check_sources(errors, values, path.child("from"))


def _check_annotation(errors: FieldErrors, path: FieldPath, key: str) -> None:
    if not labels.is_key(key.lower()):
        errors.invalid(path, key, "is not the key of an annotation")
    elif key.startswith(RESERVED):
        errors.forbidden(path.key(key), "this annotation is reserved: it records changes to an object")


def _check_variable(errors: FieldErrors, path: FieldPath, name: str) -> None:
    if not name or "=" in name or not name.isprintable():
        errors.invalid(path, name, "is not the name of an environment variable")


def _check_containers(errors: FieldErrors, values: Values, path: FieldPath) -> None:
    groups: list[tuple[str, Iterable[tuple[FieldPath, JsonObject]]]] = [
        ("containers", _enumerate_paths(path.child("containers"), values.containers)),
        ("sidecars", _enumerate_paths(path.child("sidecars"), values.sidecars)),
    ]
    if values.main is not None:
        groups.append(("mainContainer", [(path.child("mainContainer"), values.main)]))
    for group, containers in groups:
        seen: set[str] = set()
        for where, container in containers:
            name = container.get("name")
            if not isinstance(name, str) or not labels.is_dns_label(name):
                errors.invalid(where.child("name"), name, "must be lower-case letters, digits and '-'")
            elif name in seen:
                errors.duplicate(where.child("name"), name)
            else:
                seen.add(name)
            if not container.get("image") and group != "sidecars":
                errors.required(where.child("image"), "a container needs an image")
            for field, why in risks(container, where):
                errors.forbidden(field, why)


def _enumerate_paths(path: FieldPath, items: Iterable[JsonObject]) -> Iterator[tuple[FieldPath, JsonObject]]:
    for index, item in enumerate(items):
        yield path.index(index), item


def _check_sources(errors: FieldErrors, values: Values, path: FieldPath) -> None:
    for index, source in enumerate(values.sources):
        where = path.index(index)
        if kinds.parse_kind(source.kind) is None:
            errors.invalid(where.child("kind"), source.kind, "is neither Kind nor group/version/Kind")
        if fault := sources.fault(source):
            errors.invalid(where.child(fault.field), fault.value, fault.message)
        match source.to_type:
            case ToType.LABEL if not labels.is_key(source.to_key):
                errors.invalid(where.child("toKey"), source.to_key, "is not the key of a label")
            case ToType.ANNOTATION:
                _check_annotation(errors, where.child("toKey"), source.to_key)
            case ToType.ENV:
                _check_variable(errors, where.child("toKey"), source.to_key)


def _warnings(spec: CASConfigSpec) -> Iterator[str]:
    for index, policy in enumerate(spec.policies):
        path = SPEC.child("policies").index(index)
        yield from _policy_warnings(policy, path)


def _policy_warnings(policy: Policy, path: FieldPath) -> Iterator[str]:
    include, values = policy.include, policy.values
    if not include.kinds:
        yield f"{path}.include.kinds: not set, so every kind with a pod template matches"
    for name in set(values.envs) & {each.to_key for each in values.sources if each.to_type is ToType.ENV}:
        yield f"{path}.values.envs[{name}]: values.from sets the same variable and takes precedence"
    if any(kinds.parse_kind(text) == kinds.KindName("Pod") for text in include.kinds) and values.for_pods:
        fields = ", ".join(values.for_pods)
        yield f"{path}.include.kinds: only labels and annotations of a running pod can change, not {fields}"
    for index, sidecar in enumerate(values.sidecars):
        if not sidecar.get("image"):
            yield f"{path}.values.sidecars[{index}]: without an image it can only be merged into a container"
