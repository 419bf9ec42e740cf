"""The webhooks of Checkup; its rules are tested with its types."""

import base64
import json

from quintet.admission import review
from quintet.admission.checkup import ADMISSION
from quintet.apis.checkup.types import FINALIZER
from unit.admission.sample import encoded

SPEC = {"image": "i", "serviceAccountName": "s", "timeoutSeconds": 5}


def a_review(operation="CREATE", *, spec=SPEC, old=None):
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "resource": {"group": "kiagnose.io", "version": "v1alpha1", "resource": "checkups"},
            "name": "c",
            "operation": operation,
            "object": {"metadata": {"name": "c", "namespace": "shop"}, "spec": spec},
            "oldObject": old,
        },
    }


def validated(asked):
    return json.loads(review.validate(ADMISSION, encoded(asked)))["response"]


def mutated(asked):
    response = json.loads(review.mutate(ADMISSION, encoded(asked)))["response"]
    return response, json.loads(base64.b64decode(response.get("patch", "W10=")))


def test_alias_timeout_is_rewritten_with_warning():
    response, patch = mutated(
        a_review("UPDATE", spec={"image": "i", "serviceAccountName": "s", "timeout": 5})
    )
    assert {operation["path"] for operation in patch} == {"/spec/timeout", "/spec/timeoutSeconds"}
    assert response["warnings"] == ["spec.timeout is deprecated and was replaced: use spec.timeoutSeconds"]


def test_new_checkup_gets_finalizer_and_no_warning():
    response, patch = mutated(a_review())
    assert patch == [{"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]}]
    assert "warnings" not in response


def test_started_spec_is_immutable():
    old = {"spec": SPEC, "status": {"startTime": "2026-01-01T00:00:00Z"}}
    assert validated(a_review("UPDATE", old=old))["allowed"] is True
    status = validated(a_review("UPDATE", spec={**SPEC, "image": "j"}, old=old))["status"]
    assert "spec must not be changed once the checkup has started" in status["message"]


def test_spec_can_be_corrected_before_start():
    old = {"spec": {**SPEC, "params": "["}, "status": {}}
    assert validated(a_review("UPDATE", old=old))["allowed"] is True
    assert validated(a_review("UPDATE", spec={**SPEC, "params": "{"}, old=old))["allowed"] is False
