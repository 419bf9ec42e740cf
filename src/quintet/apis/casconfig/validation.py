"""Defaults, mistakes and warnings of a config as it was written.

Pure; called by the webhooks, by the controller (an object may have come past them), and by the kinds that
embed a config. Objects are taken as they came over the wire.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from quintet.apis import labels
from quintet.apis.casconfig import kinds, sources
from quintet.apis.casconfig.ledger import PREFIX
from quintet.apis.casconfig.security import risks
from quintet.apis.casconfig.spec import CASConfigSpec, EmbeddedConfig, Include, Policy, Scope, ToType, Values
from quintet.apis.casconfig.types import FINALIZER
from quintet.apis.fields import SPEC, FieldError, FieldErrors, FieldPath
from quintet.apis.meta import JsonObject

RESERVED: Final = (PREFIX, "quintet.dev/", "kubectl.kubernetes.io/last-applied-configuration")
"""Annotations that say what became of an object: a config that could set them could lie about that."""
_NAME_PATTERN = re.compile(r"[a-z0-9*]([-a-z0-9.:*]*[a-z0-9*])?")
_OPERATORS: Final = ("", "Equal", "Exists", "Lt", "Gt")
_EFFECTS: Final = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")


class Judgement(NamedTuple):
    """What is to be said about an object."""

    errors: tuple[FieldError, ...]
    """All mistakes at once."""
    warnings: tuple[str, ...]
    """What is allowed, but probably not meant."""


def default(obj: JsonObject) -> JsonObject:
    """The object as it is stored when somebody creates it: held by our finalizer, spelled one way."""
    metadata = dict(obj.get("metadata") or {})
    finalizers = list(metadata.get("finalizers") or ())
    if FINALIZER not in finalizers:
        metadata["finalizers"] = [*finalizers, FINALIZER]
    return {**rewritten(obj), "metadata": metadata}


def rewritten(obj: JsonObject) -> JsonObject:
    """The object with `maincontainer` as `mainContainer`, and `from` as a list."""
    spec = obj.get("spec")
    policies = spec.get("policies") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(policies, list):
        return obj
    return {**obj, "spec": {**spec, "policies": [_rewritten_policy(policy) for policy in policies]}}


def _rewritten_policy(policy: Any) -> Any:
    """What is not of the shape of a policy is left for validation to tell."""
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


def aliases(obj: JsonObject) -> Iterator[str]:
    """What `rewritten` changes, as warnings."""
    spec = obj.get("spec")
    policies = spec.get("policies") if isinstance(spec, dict) else None
    for index, policy in enumerate(policies if isinstance(policies, list) else ()):
        path, values = SPEC.child("policies").index(index).child("values"), _values(policy)
        if "maincontainer" in values:
            yield f"{path}.maincontainer: was rewritten to mainContainer"
        if isinstance(values.get("from"), dict):
            yield f"{path}.from: was rewritten to a list of one"


def judge(obj: JsonObject) -> Judgement:
    """Look at an object as it was written."""
    try:
        spec = msgspec.convert(obj.get("spec") or {}, CASConfigSpec)
    except msgspec.ValidationError as error:
        return Judgement((_not_decoded(error),), ())
    return Judgement(tuple(spec_errors(spec)), tuple(_warnings(spec)))


def _not_decoded(error: msgspec.ValidationError) -> FieldError:
    errors = FieldErrors()
    errors.invalid(SPEC, None, str(error))
    return errors.found[0]


def spec_errors(spec: CASConfigSpec) -> list[FieldError]:
    """What is wrong with a config; nothing of it is applied while there is anything."""
    errors = FieldErrors()
    _check_scope(errors, spec.scope, SPEC.child("scope"))
    return [*errors, *policy_errors(spec, SPEC)]


def policy_errors(spec: EmbeddedConfig, path: FieldPath) -> list[FieldError]:
    """What is wrong with the policies, also of a config that is embedded at a path."""
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
        errors.required(path, "must say which objects are meant: an empty include matches nothing")
    for index, text in enumerate(include.kinds):
        where = path.child("kinds").index(index)
        if kinds.parsed(text) is None:
            errors.invalid(where, text, "is neither Kind nor group/version/Kind")
        elif why := kinds.forbidden_text(text):
            errors.forbidden(where, f"a {text.rpartition('/')[2]} is never a target: {why}")
    for index, name in enumerate(include.names):
        if not _NAME_PATTERN.fullmatch(name):
            errors.invalid(path.child("names").index(index), name, "is no name; * stands for any text")
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
        errors.forbidden(
            path.key(key), "this annotation says what became of an object, and is not for configs"
        )


def _check_variable(errors: FieldErrors, path: FieldPath, name: str) -> None:
    if not name or "=" in name or not name.isprintable():
        errors.invalid(path, name, "is not the name of an environment variable")


def _check_containers(errors: FieldErrors, values: Values, path: FieldPath) -> None:
    groups: list[tuple[str, Iterable[tuple[FieldPath, JsonObject]]]] = [
        ("containers", _indexed(path.child("containers"), values.containers)),
        ("sidecars", _indexed(path.child("sidecars"), values.sidecars)),
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


def _indexed(path: FieldPath, items: Iterable[JsonObject]) -> Iterator[tuple[FieldPath, JsonObject]]:
    for index, item in enumerate(items):
        yield path.index(index), item


def _check_sources(errors: FieldErrors, values: Values, path: FieldPath) -> None:
    for index, source in enumerate(values.sources):
        where = path.index(index)
        if kinds.parsed(source.kind) is None:
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
        yield f"{path}.include.kinds: left out, every kind with a pod template is meant"
    for name in set(values.envs) & {each.to_key for each in values.sources if each.to_type is ToType.ENV}:
        yield f"{path}.values.envs[{name}]: from sets the same variable, and wins"
    if any(kinds.parsed(text) == kinds.KindName("Pod") for text in include.kinds) and values.for_pods:
        fields = ", ".join(values.for_pods)
        yield f"{path}.include.kinds: a running pod takes labels and annotations only, not {fields}"
    for index, sidecar in enumerate(values.sidecars):
        if not sidecar.get("image"):
            yield f"{path}.values.sidecars[{index}]: without an image it can only be merged into a container"
