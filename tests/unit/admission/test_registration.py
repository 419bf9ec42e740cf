"""What the API server is told: enough to ask us, and nothing that could block anybody else."""

import base64
import copy

import pytest

from quintet.admission.registration import (
    INJECT_CA_FROM,
    ServiceTarget,
    UrlTarget,
    WebhookEndpoint,
    cluster_rules,
    configurations,
    covers,
)
from quintet.admission.review import Admission
from unit.admission.sample import ADMISSION, WIDGETS

SERVICE = WebhookEndpoint(at=ServiceTarget("quintet-system", "quintet-webhooks"))


def built(endpoint=SERVICE, admissions=(ADMISSION,), bundle: bytes | None = b"PEM"):
    return {resource.kind: body for resource, body in configurations(endpoint, admissions, bundle)}


@pytest.fixture(params=["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
def configuration(request):
    return built()[request.param]


def test_rules_cover_only_our_kind_without_subresources(configuration):
    (webhook,) = configuration["webhooks"]
    assert webhook["rules"] == [
        {
            "apiGroups": ["test.quintet.dev"],
            "apiVersions": ["v1"],
            "resources": ["widgets"],
            "operations": ["CREATE", "UPDATE"],
            "scope": "Namespaced",
        }
    ]
    assert "namespaceSelector" not in webhook


def test_failure_policy_is_fail_with_short_timeout(configuration):
    (webhook,) = configuration["webhooks"]
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Fail", 5)
    assert (webhook["sideEffects"], webhook["matchPolicy"]) == ("None", "Equivalent")
    assert webhook["admissionReviewVersions"] == ["v1"]


def test_each_webhook_has_its_own_service_path():
    for kind, path in (
        ("MutatingWebhookConfiguration", "/mutate/widgets.test.quintet.dev"),
        ("ValidatingWebhookConfiguration", "/validate/widgets.test.quintet.dev"),
    ):
        client = built()[kind]["webhooks"][0]["clientConfig"]
        assert client == {
            "service": {
                "namespace": "quintet-system",
                "name": "quintet-webhooks",
                "port": 443,
                "path": path,
            },
            "caBundle": base64.b64encode(b"PEM").decode(),
        }


def test_url_endpoint_is_registered_with_url():
    body = built(WebhookEndpoint(at=UrlTarget("https://10.0.0.5:9443")))["ValidatingWebhookConfiguration"]
    client = body["webhooks"][0]["clientConfig"]
    assert client["url"] == "https://10.0.0.5:9443/validate/widgets.test.quintet.dev"
    assert "service" not in client


def test_cert_manager_endpoint_has_annotation_and_no_ca_bundle():
    endpoint = WebhookEndpoint(at=SERVICE.at, inject_ca_from="quintet-system/serving")
    body = built(endpoint)["MutatingWebhookConfiguration"]
    assert body["metadata"]["annotations"][INJECT_CA_FROM] == "quintet-system/serving"
    assert "caBundle" not in body["webhooks"][0]["clientConfig"]


def test_namespace_selector_is_registered():
    chosen = {"matchLabels": {"quintet": "yes"}}
    body = built(WebhookEndpoint(at=SERVICE.at, namespace_selector=chosen))["MutatingWebhookConfiguration"]
    assert body["webhooks"][0]["namespaceSelector"] == chosen


def test_kind_without_defaults_has_no_mutating_webhook():
    bodies = built(admissions=(Admission(WIDGETS, ADMISSION.validate),))
    assert bodies["MutatingWebhookConfiguration"]["webhooks"] == []
    assert len(bodies["ValidatingWebhookConfiguration"]["webhooks"]) == 1


def served(body):
    """As the API server gives it back: with defaults, and with what others added."""
    live = copy.deepcopy(body)
    live["metadata"] |= {"uid": "1", "resourceVersion": "5", "managedFields": []}
    for webhook in live["webhooks"]:
        webhook |= {"objectSelector": {}, "namespaceSelector": {}, "reinvocationPolicy": "Never"}
    live["webhooks"].insert(0, {"name": "somebody.else.example.com"})
    if not body["webhooks"]:
        del live["webhooks"]
    return live


def test_fields_added_by_server_or_others_are_no_difference(configuration):
    assert covers(served(configuration), configuration)


def test_empty_webhook_list_covers_empty_list():
    body = built(admissions=(Admission(WIDGETS, ADMISSION.validate),))["MutatingWebhookConfiguration"]
    assert covers(served(body), body)


def test_changed_field_is_a_difference(configuration):
    fields = ("failurePolicy", "timeoutSeconds", "sideEffects", "matchPolicy", "rules", "clientConfig")
    for field in fields:
        live = served(configuration)
        live["webhooks"][1][field] = None
        assert not covers(live, configuration), field
    live = served(configuration)
    live["webhooks"][1]["rules"][0]["resources"].append("widgets/status")
    assert not covers(live, configuration)


def test_removed_webhook_is_a_difference(configuration):
    fewer = built(admissions=())[configuration["kind"]]
    assert not covers(served(configuration), fewer)


def test_permissions_cover_only_our_webhook_configurations():
    assert all(rule["resourceNames"] == ["quintet"] for rule in cluster_rules())
    assert not {"delete", "list", "*"} & {verb for rule in cluster_rules() for verb in rule["verbs"]}
