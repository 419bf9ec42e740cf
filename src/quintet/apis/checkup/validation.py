"""Defaults, deprecated names and validation of Checkups. Pure functions on undecoded objects.

The controller calls `spec_errors` again, because an object may have bypassed the webhooks.
"""

from typing import Any

from quintet.apis.checkup import params, schedule
from quintet.apis.checkup.contract import CONTAINER, VARIABLES
from quintet.apis.checkup.types import (
    FINALIZER,
    LONGEST_TIMEOUT,
    MUTABLE_FIELDS,
    SCHEDULE_FIELDS,
    TIMEOUT_RULE,
)
from quintet.apis.fields import SPEC, FieldError, FieldErrors, FieldPath
from quintet.apis.meta import JsonObject
from quintet.apis.podtemplate import POD, named_items, shape_errors

# These set the identity or the lifetime of the pod, which fields of the Checkup control.
_OWN_FIELDS = {
    "serviceAccountName": "set spec.serviceAccountName instead",
    "serviceAccount": "set spec.serviceAccountName instead",
    "automountServiceAccountToken": "the checkup needs its token to write its results",
    "restartPolicy": "a checkup runs once",
    "activeDeadlineSeconds": "set spec.timeoutSeconds instead",
    "terminationGracePeriodSeconds": "a stopped checkup always has five seconds",
}


def default(obj: JsonObject, *, created: bool) -> JsonObject:
    """Return the object with deprecated names replaced and, at creation, with our finalizer."""
    metadata, spec = dict(obj.get("metadata") or {}), dict(obj.get("spec") or {})
    if _uses_old_timeout(obj):
        spec["timeoutSeconds"] = spec.pop("timeout")
    if created:
        finalizers = list(metadata.get("finalizers") or ())
        if FINALIZER not in finalizers:
            metadata["finalizers"] = [*finalizers, FINALIZER]
    return {**obj, "metadata": metadata, "spec": spec}


def alias_warnings(obj: JsonObject) -> tuple[str, ...]:
    """Return a warning for each deprecated name in use."""
    if _uses_old_timeout(obj):
        return ("spec.timeout is deprecated and was replaced: use spec.timeoutSeconds",)
    return ()


def _uses_old_timeout(obj: JsonObject) -> bool:
    spec = obj.get("spec") or {}
    if "timeout" not in spec:
        return False
    if (seconds := spec.get("timeoutSeconds")) is not None:
        # Only valid values are the same: in Python, 1 == True.
        return _is_timeout(seconds) and _is_timeout(spec["timeout"]) and str(seconds) == str(spec["timeout"])
    # A Checkup that bypassed the webhooks and has started keeps its spec, or it could not even be labelled.
    return not (obj.get("status") or {}).get("startTime")


def spec_errors(spec: JsonObject) -> list[FieldError]:
    """Return the errors of a spec; the controller creates nothing while there are any."""
    errors = FieldErrors()
    for name in ("image", "serviceAccountName"):
        if not isinstance(spec.get(name), str) or not spec[name].strip():
            errors.required(SPEC.child(name))
    _check_timeout(spec, errors)
    values, found = params.parse(spec.get("params"))
    errors.found += found
    _check_template(spec.get("template") or {}, {params.variable(name) for name in values}, errors)
    errors.found += schedule_errors(spec)
    return list(errors)


def schedule_errors(spec: JsonObject) -> list[FieldError]:
    """Return the errors of the schedule, which may change after the checkup has started."""
    errors = FieldErrors()
    if not spec.get("schedule"):
        for name in SCHEDULE_FIELDS:
            if name in spec:
                errors.forbidden(SPEC.child(name), "it needs spec.schedule")
        return list(errors)
    if spec.get("ttlSecondsAfterFinished") is not None:
        errors.forbidden(SPEC.child("ttlSecondsAfterFinished"), "a Checkup with spec.schedule never finishes")
    for name, check in (("schedule", schedule.parse), ("timeZone", schedule.find_zone)):
        try:
            check(spec.get(name, ""))
        except schedule.ScheduleError as error:
            errors.invalid(SPEC.child(name), spec[name], str(error))
    return list(errors)


def changes_run(old: JsonObject, new: JsonObject) -> bool:
    """Return whether another spec runs something else, and not only at other times."""
    before, after = ({**spec, **dict.fromkeys(MUTABLE_FIELDS)} for spec in (old, new))
    return before != after


def _check_timeout(spec: JsonObject, errors: FieldErrors) -> None:
    name = "timeoutSeconds" if "timeoutSeconds" in spec else "timeout"
    given = spec.get(name)
    if given is None:
        errors.required(SPEC.child("timeoutSeconds"), TIMEOUT_RULE)
    elif not _is_timeout(given):
        errors.invalid(SPEC.child(name), given, TIMEOUT_RULE)
    elif spec.get("timeout") not in (None, given):
        errors.forbidden(
            SPEC.child("timeout"), "it is the deprecated name of timeoutSeconds: set only one of them"
        )


def _is_timeout(given: Any) -> bool:
    if isinstance(given, str):
        return given.isascii() and given.isdigit() and given[0] != "0" and _is_timeout(int(given[:9]))
    return isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= LONGEST_TIMEOUT


def _check_template(template: Any, variables: set[str], errors: FieldErrors) -> None:
    found = shape_errors(template, (CONTAINER,), ("env",))
    if found:
        errors.found += found
        return
    spec = template.get("spec") or {}
    for name, why in _OWN_FIELDS.items():
        if name in spec:
            errors.forbidden(POD.child(name), why)
    for index, container in named_items(spec, "containers"):
        if container["name"] == CONTAINER:
            _check_container(container, POD.child("containers").index(index), variables, errors)


def _check_container(
    container: JsonObject, path: FieldPath, variables: set[str], errors: FieldErrors
) -> None:
    if "image" in container:
        errors.forbidden(path.child("image"), "set spec.image instead")
    for name in ("restartPolicy", "restartPolicyRules"):
        if name in container:
            errors.forbidden(path.child(name), "a checkup runs once")
    for index, item in named_items(container, "env"):
        if item["name"] in VARIABLES or item["name"] in variables:
            where = path.child("env").index(index).child("name")
            errors.forbidden(where, f"the controller sets the variable {item['name']}")
