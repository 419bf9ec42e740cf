"""The webhook of StatefulCluster; its rules are tested with its types."""

import json

from kit.kinds.statefulcluster_manifests import a_cluster, with_value
from quintet.admission import review
from quintet.admission.statefulcluster import ADMISSION
from unit.admission.sample import encoded


def validated(cluster, old=None):
    asked = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "resource": {"group": "enge.me", "version": "v1alpha1", "resource": "statefulclusters"},
            "name": "web",
            "operation": "CREATE" if old is None else "UPDATE",
            "object": cluster,
            "oldObject": old,
        },
    }
    return json.loads(review.validate(ADMISSION, encoded(asked)))["response"]


BAD = a_cluster(selector={}, ordinals={"start": 1})


def test_validation_errors_are_denied_with_one_cause_each():
    response = validated(BAD)
    assert response["allowed"] is False
    assert [cause["field"] for cause in response["status"]["details"]["causes"]] == ["spec.selector"]
    assert response["warnings"] == [
        "spec.ordinals: is ignored, because replicas have random names and no ordinals"
    ]


def test_invalid_object_that_bypassed_webhook_can_be_labelled_and_scaled():
    assert validated(with_value(BAD, "metadata.labels", {"a": "b"}), BAD)["allowed"] is True
    assert validated(with_value(BAD, "spec.replicas", 0), BAD)["allowed"] is True


def test_other_change_to_invalid_object_is_validated():
    assert validated(with_value(BAD, "spec.serviceName", "other"), BAD)["allowed"] is False


def test_annotations_are_validated_when_spec_is_unchanged():
    new = with_value(a_cluster(), "metadata.annotations", {"enge.me/plan-only": "maybe"})
    assert validated(new, a_cluster())["allowed"] is False


def test_shrinking_claim_is_rejected_on_update_only():
    small = with_value(a_cluster(), "spec.volumeClaimTemplates.0.spec.resources.requests.storage", "1Mi")
    assert validated(small)["allowed"] is True
    assert validated(small, a_cluster())["allowed"] is False


def test_statefulcluster_has_no_defaults():
    assert ADMISSION.default is None
