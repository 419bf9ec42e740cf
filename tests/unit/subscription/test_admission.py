"""The webhooks of Subscription; its rules are tested with its types."""

import base64
import copy
import json

from quintet.admission import review
from quintet.admission.subscription import ADMISSION
from quintet.apis.subscription import SUBSCRIPTIONS
from quintet.apis.subscription.types import FINALIZER

SPEC = {
    "sink": "http://orders.shop.svc.cluster.local",
    "source": "commerce",
    "types": ["order.created.v1"],
}


def a_review(operation="CREATE", **spec):
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "resource": {"group": SUBSCRIPTIONS.group, "resource": SUBSCRIPTIONS.plural},
            "name": "orders",
            "operation": operation,
            "object": {"metadata": {"name": "orders", "namespace": "shop"}, "spec": SPEC | spec},
        },
    }


def validated(asked):
    return json.loads(review.validate(ADMISSION, json.dumps(asked).encode()))["response"]


def patch(asked):
    response = json.loads(review.mutate(ADMISSION, json.dumps(asked).encode()))["response"]
    assert response["allowed"] is True
    return json.loads(base64.b64decode(response.get("patch", "W10=")))


def test_new_subscription_gets_the_finalizer():
    assert patch(a_review()) == [{"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]}]


def test_removed_finalizer_is_not_added_again():
    assert patch(a_review("UPDATE")) == []


def test_all_errors_are_refused_at_once_with_their_fields():
    response = validated(a_review(source="", types=["order"], sink="http://orders.bank.svc.cluster.local"))
    assert (response["allowed"], response["status"]["code"]) == (False, 422)
    causes = {cause["field"]: cause["message"] for cause in response["status"]["details"]["causes"]}
    assert list(causes) == ["spec.source", "spec.types[0]", "spec.sink"]
    assert "must have the same namespace as the subscriber, which is 'shop'" in causes["spec.sink"]


def test_subscription_that_bypassed_the_webhooks_can_be_labelled():
    asked = a_review("UPDATE", source="")
    asked["request"]["oldObject"] = copy.deepcopy(asked["request"]["object"])
    asked["request"]["object"]["metadata"]["labels"] = {"a": "b"}
    assert validated(asked)["allowed"] is True
    asked["request"]["object"]["spec"]["types"] = ["a.b"]
    assert validated(asked)["allowed"] is False
