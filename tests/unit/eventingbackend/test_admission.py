"""The webhooks of EventingBackend: what is filled in, warned of and refused, and in which namespaces."""

import base64
import copy
import json

import pytest
from hypothesis import given, settings

from quintet.admission import review
from quintet.admission.eventingbackend import NAMESPACE_LABEL, admissions
from quintet.admission.registration import UrlTarget, WebhookEndpoint, configurations
from quintet.apis.eventingbackend import CATALOG, EVENTINGBACKENDS, config_faults
from quintet.apis.eventingbackend.types import LABEL, ConfigErrors
from unit.eventingbackend.test_fuzzed_configs import ANYTHING, CONFIGS

WARNING, REJECTING = admissions(ConfigErrors.WARN)
FAULTY = [{"maxInFlightMessages": "ten"}, {"streamReplicas": 9}, {"foo": "bar"}]
FAULTS = [
    'spec.config[maxInFlightMessages]: Invalid type: "ten": should be of type int',
    'spec.config[streamReplicas]: Invalid value: "9": must be set between 1 and 5',
    'spec.config[foo]: Unsupported value: "bar": config does not exist for backend type nats',
]


def a_review(operation="CREATE", *, old=None, **spec):
    body = {"metadata": {"name": "main", "namespace": "shop"}, "spec": {"type": "nats"} | spec}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "resource": {"group": EVENTINGBACKENDS.group, "resource": EVENTINGBACKENDS.plural},
            "name": "main",
            "operation": operation,
            "object": body,
            "oldObject": old,
        },
    }


def validated(asked, admission=WARNING):
    return json.loads(review.validate(admission, json.dumps(asked).encode()))["response"]


def patch(asked):
    response = json.loads(review.mutate(WARNING, json.dumps(asked).encode()))["response"]
    assert response["allowed"] is True, response
    return json.loads(base64.b64decode(response.get("patch", "W10=")))


def test_config_errors_are_warnings_with_the_text_of_the_status():
    response = validated(a_review(config=FAULTY))
    assert response["allowed"] is True
    assert response["warnings"] == FAULTS


def test_config_errors_are_refused_in_strict_mode():
    response = validated(a_review(config=FAULTY), REJECTING)
    assert (response["allowed"], response["status"]["code"]) == (False, 422)
    assert response["status"]["message"] == f'EventingBackend "main" is invalid: {"; ".join(FAULTS)}'
    fields = [cause["field"] for cause in response["status"]["details"]["causes"]]
    assert fields == ["spec.config[maxInFlightMessages]", "spec.config[streamReplicas]", "spec.config[foo]"]


@pytest.mark.parametrize("admission", [WARNING, REJECTING], ids=["Warn", "Reject"])
def test_unknown_type_is_refused_with_the_known_types(admission):
    response = validated(a_review(type="kafka"), admission)
    assert response["allowed"] is False
    want = "spec.type: Unsupported value: \"kafka\": must be one of 'nats', 'beb'"
    assert want in response["status"]["message"]


def test_new_backend_gets_labels_and_required_keys():
    assert patch(a_review(config=[{"streamName": "orders"}])) == [
        {"op": "add", "path": "/metadata/labels", "value": {LABEL[0]: LABEL[1]}},
        {"op": "add", "path": "/spec/config/1", "value": {"streamSubjectPrefix": "kyma"}},
        {"op": "add", "path": "/spec/config/2", "value": {"eventTypePrefix": "sap.kyma.custom"}},
    ]


def test_update_without_required_keys_gets_them_again():
    asked = a_review("UPDATE", config=[{"streamReplicas": 3}])
    added = [operation["value"] for operation in patch(asked) if operation["path"].startswith("/spec")]
    assert [list(entry) for entry in added] == [["streamName"], ["streamSubjectPrefix"], ["eventTypePrefix"]]
    complete = [{"streamName": "a"}, {"streamSubjectPrefix": "b"}, {"eventTypePrefix": "c"}]
    asked = a_review("UPDATE", config=complete)
    asked["request"]["object"]["metadata"]["labels"] = {LABEL[0]: LABEL[1]}
    assert patch(asked) == []


def test_update_without_spec_change_is_not_defaulted():
    asked = a_review("UPDATE", config=[{"streamReplicas": 3}])
    asked["request"]["oldObject"] = copy.deepcopy(asked["request"]["object"])
    asked["request"]["object"]["metadata"]["finalizers"] = ["a/b"]
    assert patch(asked) == [], "whoever adds a finalizer does not change the config"


@settings(max_examples=200)
@given(ANYTHING)
def test_defaulting_accepts_any_input(spec):
    asked = a_review()
    asked["request"]["object"]["spec"] = spec
    patch(asked)


def test_backend_with_errors_can_be_labelled():
    asked = a_review("UPDATE", config=FAULTY)
    asked["request"]["oldObject"] = copy.deepcopy(asked["request"]["object"])
    asked["request"]["object"]["metadata"]["labels"] = {"team": "a"}
    assert validated(asked, REJECTING)["allowed"] is True
    asked["request"]["object"]["spec"]["config"] = FAULTY[:1]
    assert validated(asked, REJECTING)["allowed"] is False


@settings(max_examples=300)
@given(CONFIGS)
def test_every_warning_contains_the_whole_error(drawn):
    name, config = drawn
    faults = config_faults(CATALOG[name], config)
    response = validated(a_review(type=name, config=config))
    assert response["allowed"] is True
    said = response.get("warnings", [])
    shown = said if len(said) < review.MOST_WARNINGS else said[:-1]
    distinct = list(dict.fromkeys(fault.error for fault in faults))
    for warning in shown:
        short = len(warning) < review.LONGEST_WARNING
        assert not short or any(warning.endswith(" ".join(error.split())) for error in distinct), warning
    if len(faults) < review.MOST_WARNINGS:
        assert len(shown) <= len(faults)
        assert bool(shown) == bool(faults)


def test_long_value_is_omitted_so_that_the_error_fits():
    (warning,) = validated(a_review(config=[{"url": "nats://" + "h" * 250 + "/?"}]))["warnings"]
    assert warning.startswith("spec.config[url]: Invalid value: must be an address such as nats://")
    assert warning.endswith("that credentialsSecretRef names")


@pytest.mark.parametrize(("usual", "other"), [("Warn", "Reject"), ("Reject", "Warn")])
def test_namespace_label_overrides_the_flag(usual, other):
    endpoint = WebhookEndpoint(at=UrlTarget("https://here"))
    built = {kind.kind: body for kind, body in configurations(endpoint, admissions(ConfigErrors(usual)), b"")}
    (mutating,) = built["MutatingWebhookConfiguration"]["webhooks"]
    assert "namespaceSelector" not in mutating, "defaults are the same everywhere"
    first, second = built["ValidatingWebhookConfiguration"]["webhooks"]
    label = {"key": NAMESPACE_LABEL, "values": [other]}
    assert first["namespaceSelector"] == {"matchExpressions": [{**label, "operator": "NotIn"}]}
    assert second["namespaceSelector"] == {"matchExpressions": [{**label, "operator": "In"}]}
    assert first["clientConfig"]["url"] == f"https://here/validate/{EVENTINGBACKENDS.qualified}"
    assert second["clientConfig"]["url"].endswith(f"{EVENTINGBACKENDS.qualified}/{other.lower()}")
    assert second["name"] == f"validate.{other.lower()}.{EVENTINGBACKENDS.qualified}"


def test_process_with_watched_namespaces_uses_both_selectors():
    endpoint = WebhookEndpoint(
        at=UrlTarget("https://here"), namespace_selector={"matchLabels": {"team": "a"}}
    )
    _, (_, validating) = configurations(endpoint, admissions(ConfigErrors.WARN), b"")
    assert validating["webhooks"][0]["namespaceSelector"] == {
        "matchExpressions": [
            {"key": "team", "operator": "In", "values": ["a"]},
            {"key": NAMESPACE_LABEL, "operator": "NotIn", "values": ["Reject"]},
        ]
    }
