"""Webhooks of Checkup."""

from quintet.admission.review import Admission, AdmissionRequest, Operation
from quintet.apis.checkup import CHECKUPS
from quintet.apis.checkup.types import IMMUTABLE_SPEC
from quintet.apis.checkup.validation import (
    alias_warnings,
    changes_run,
    default,
    schedule_errors,
    spec_errors,
)
from quintet.apis.fields import SPEC, ErrorType, FieldError, ValidationResult
from quintet.apis.meta import JsonObject


def _default(obj: JsonObject, operation: Operation) -> JsonObject:
    # The finalizer only at creation: one that a user removed must not be added again.
    return default(obj, created=operation is Operation.CREATE)


def _validate(request: AdmissionRequest) -> ValidationResult:
    if request.spec_unchanged:
        return ValidationResult()
    old, spec = request.old_object or {}, request.object.get("spec") or {}
    if (old.get("status") or {}).get("startTime"):
        if changes_run(old.get("spec") or {}, spec):
            return ValidationResult((FieldError(SPEC, ErrorType.FORBIDDEN, message=IMMUTABLE_SPEC),))
        return ValidationResult(tuple(schedule_errors(spec)))
    return ValidationResult(tuple(spec_errors(spec)))


ADMISSION = Admission(
    CHECKUPS, _validate, _default, alias_warnings, too_large="The Checkup is too large: shorten its params."
)
