"""The webhooks of JsonServer; its rules are tested with its types."""

import base64
import copy
import json

from quintet.admission import review
from quintet.admission.jsonserver import ADMISSION
from quintet.apis.jsonserver.types import FINALIZER, INVALID_CONFIG, INVALID_NAME
from unit.admission.sample import encoded


def a_review(operation="CREATE", *, name="app-a", old=None, **spec):
    metadata = {"name": name, "namespace": "shop"}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "resource": {"group": "example.com", "version": "v1", "resource": "jsonservers"},
            "name": name,
            "operation": operation,
            "object": {"metadata": metadata, "spec": {"jsonConfig": '{"a": []}'} | spec},
            "oldObject": old,
        },
    }


def validated(asked):
    return json.loads(review.validate(ADMISSION, encoded(asked)))["response"]


def patch(asked):
    response = json.loads(review.mutate(ADMISSION, encoded(asked)))["response"]
    assert response["allowed"] is True
    return json.loads(base64.b64decode(response.get("patch", "W10=")))


def test_new_jsonserver_gets_one_replica_and_finalizer():
    assert patch(a_review()) == [
        {"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]},
        {"op": "add", "path": "/spec/replicas", "value": 1},
    ]


def test_removed_finalizer_is_not_added_again():
    assert patch(a_review("UPDATE", old={"spec": {}})) == []


def test_denial_contains_specified_messages():
    status = validated(a_review(name="b", jsonConfig="null"))["status"]
    assert status["code"] == 422
    for sentence in (INVALID_NAME, INVALID_CONFIG):
        assert sentence in status["message"], status["message"]
        assert any(sentence in cause["message"] for cause in status["details"]["causes"]), status


def test_doubtful_config_causes_warning():
    response = validated(a_review(jsonConfig='{"a": 1}'))
    assert response["allowed"] is True
    assert response["warnings"][0].startswith("spec.jsonConfig: a: "), response


def test_invalid_jsonserver_that_bypassed_webhook_can_be_labelled():
    asked = a_review("UPDATE", name="b", jsonConfig="null")
    asked["request"]["oldObject"] = copy.deepcopy(asked["request"]["object"])
    asked["request"]["object"]["metadata"]["labels"] = {"a": "b"}
    assert validated(asked)["allowed"] is True
    asked["request"]["object"]["spec"]["replicas"] = 2
    assert validated(asked)["allowed"] is False
