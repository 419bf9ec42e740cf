"""Webhooks of Subscription."""

from quintet.admission.review import Admission, AdmissionRequest, Operation
from quintet.apis import subscription
from quintet.apis.fields import ValidationResult
from quintet.apis.meta import JsonObject


def _default(obj: JsonObject, operation: Operation) -> JsonObject:
    # Only at creation: a finalizer that a user removed must not be added again.
    return subscription.default(obj) if operation is Operation.CREATE else obj


def _validate(request: AdmissionRequest) -> ValidationResult:
    return ValidationResult() if request.spec_unchanged else subscription.validate(request.object)


ADMISSION = Admission(subscription.SUBSCRIPTIONS, _validate, _default)
