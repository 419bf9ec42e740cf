"""The proxy parses requests as the API server does."""

import pytest

from kit.faults.proxy.requests import changes_state, matching, parse

DEPLOYMENTS = "/apis/apps/v1/namespaces/a/deployments"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


@pytest.mark.parametrize(
    ("method", "path", "query", "content_type", "want_text"),
    [
        ("GET", "/api/v1/pods", {}, "", "list pods"),
        ("GET", "/api/v1/pods", {"watch": "true"}, "", "watch pods"),
        ("GET", "/api/v1/namespaces/a/pods", {"watch": "1"}, "", "watch pods a"),
        ("GET", "/api/v1/namespaces/a/pods/p", {}, "", "get pods a/p"),
        ("GET", "/api/v1/namespaces/a/pods/p/log", {}, "", "get pods/log a/p"),
        ("GET", "/api/v1/nodes/n", {}, "", "get nodes n"),
        ("GET", "/api/v1/nodes/n/proxy/metrics/cadvisor", {}, "", "get nodes/proxy/metrics/cadvisor n"),
        ("POST", DEPLOYMENTS, {}, "", "create deployments.apps a"),
        ("PUT", f"{DEPLOYMENTS}/d/scale", {}, "", "update deployments.apps/scale a/d"),
        ("PATCH", f"{DEPLOYMENTS}/d", {}, MERGE, "patch deployments.apps a/d"),
        ("PATCH", f"{DEPLOYMENTS}/d", {}, APPLY, "apply deployments.apps a/d"),
        ("DELETE", "/api/v1/namespaces/a/pods/p", {}, "", "delete pods a/p"),
        ("DELETE", "/api/v1/namespaces/a/pods", {}, "", "deletecollection pods a"),
        ("GET", "/api/v1/namespaces", {}, "", "list namespaces"),
        ("DELETE", "/api/v1/namespaces/a", {}, "", "delete namespaces a/a"),
        ("PUT", "/api/v1/namespaces/a/finalize", {}, "", "update namespaces/finalize a/a"),
        ("GET", "/version", {}, "", "get /version"),
        ("GET", "/apis/apps/v1", {}, "", "get /apis/apps/v1"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_request_is_parsed_into_verb_and_resource(method, path, query, content_type, want_text):
    assert str(parse(method, path, query, content_type)) == want_text


def test_only_persistent_writes_are_numbered():
    def numbered(method, path, **query):
        return changes_state(parse(method, path, query))

    assert numbered("POST", "/api/v1/namespaces/a/configmaps")
    assert not numbered("GET", "/api/v1/namespaces/a/configmaps")
    assert not numbered("POST", "/api/v1/namespaces/a/configmaps", dryRun="All")
    assert not numbered("POST", "/api/v1/namespaces/a/events")
    assert not numbered("POST", "/apis/events.k8s.io/v1/namespaces/a/events")
    assert not numbered("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/l")
    assert not numbered("POST", "/apis/authentication.k8s.io/v1/tokenreviews")


def test_matching_compares_all_given_parts():
    request = parse("PUT", "/apis/apps/v1/namespaces/a/deployments/d/status", {})
    assert matching()(request)
    assert matching("create|update", "deployments", group="apps", namespace="a", name="d")(request)
    assert not matching("create")(request)
    assert not matching(name="other")(request)
    assert not matching(subresource="")(request), "an empty part means that it must be absent"
