"""Webhooks of JsonServer."""

from quintet.admission.review import Admission, AdmissionRequest, Operation
from quintet.apis import jsonserver
from quintet.apis.fields import ValidationResult
from quintet.apis.jsonserver.types import INVALID_CONFIG
from quintet.apis.meta import JsonObject


def _default(obj: JsonObject, operation: Operation) -> JsonObject:
    # Only at creation: a finalizer that a user removed must not be added again.
    return jsonserver.default(obj) if operation is Operation.CREATE else obj


def _validate(request: AdmissionRequest) -> ValidationResult:
    return ValidationResult() if request.spec_unchanged else jsonserver.validate(request.object)


ADMISSION = Admission(jsonserver.JSONSERVERS, _validate, _default, too_large=INVALID_CONFIG)
