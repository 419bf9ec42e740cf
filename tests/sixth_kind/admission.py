"""Webhooks of Greeting."""

from quintet.admission.review import Admission, AdmissionRequest, Operation
from quintet.apis.fields import SPEC, FieldErrors, ValidationResult
from quintet.apis.meta import JsonObject
from sixth_kind.types import FINALIZER, GREETINGS


def _default(obj: JsonObject, operation: Operation) -> JsonObject:
    if operation is not Operation.CREATE:
        return obj
    metadata = obj["metadata"]
    finalizers = [*metadata.get("finalizers", ())]
    return {**obj, "metadata": {**metadata, "finalizers": [*finalizers, FINALIZER]}}


def _validate(request: AdmissionRequest) -> ValidationResult:
    errors, person = FieldErrors(), request.object["spec"].get("person", "")
    if person != person.strip():
        errors.invalid(SPEC.child("person"), person, "must not begin or end with a space")
    warnings = ("spec.person: everybody is a large audience",) if person == "everybody" else ()
    return ValidationResult(tuple(errors), warnings)


ADMISSION = Admission(GREETINGS, _validate, _default)
