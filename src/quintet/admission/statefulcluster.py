"""Webhook of StatefulCluster."""

from quintet.admission.review import Admission, AdmissionRequest
from quintet.apis import statefulcluster
from quintet.apis.fields import ValidationResult
from quintet.apis.jsonpatch import same
from quintet.apis.meta import JsonObject


def _validate(request: AdmissionRequest) -> ValidationResult:
    old = request.old_object
    # An invalid object that bypassed the webhook can still be labelled and scaled, and lose its finalizers.
    if old is not None and same(_validated_part(old), _validated_part(request.object)):
        return ValidationResult()
    return statefulcluster.validate(request.object, old)


def _validated_part(obj: JsonObject) -> JsonObject:
    spec = {key: value for key, value in (obj.get("spec") or {}).items() if key != "replicas"}
    return {"spec": spec, "annotations": (obj.get("metadata") or {}).get("annotations") or {}}


ADMISSION = Admission(statefulcluster.STATEFULCLUSTERS, _validate)
