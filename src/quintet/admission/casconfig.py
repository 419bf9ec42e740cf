"""Webhooks of CASConfig."""

from quintet.admission.review import Admission, AdmissionRequest, Operation
from quintet.apis.casconfig import CASCONFIGS
from quintet.apis.casconfig.overlap import overlaps
from quintet.apis.casconfig.validation import alias_warnings, default, normalize, validate
from quintet.apis.fields import ValidationResult
from quintet.apis.meta import JsonObject


def _default(obj: JsonObject, operation: Operation) -> JsonObject:
    # The finalizer only at creation: one that a user removed must not be added again.
    return default(obj) if operation is Operation.CREATE else normalize(obj)


def _alias_warnings(obj: JsonObject) -> tuple[str, ...]:
    return tuple(alias_warnings(obj))


def _validate(request: AdmissionRequest) -> ValidationResult:
    if request.spec_unchanged:
        return ValidationResult()
    result = validate(request.object)
    if result.errors:
        return result
    return ValidationResult((), (*result.warnings, *overlaps(request.object)))


ADMISSION = Admission(
    CASCONFIGS,
    _validate,
    _default,
    _alias_warnings,
    too_large="The CASConfig is too large: split its policies.",
)
