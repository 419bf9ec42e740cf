"""Comparison of permissions with audited requests."""

import re

import pytest

from kit.permissions.report import list_subjects
from kit.permissions.usage import (
    AuditedRequest,
    Permission,
    Subject,
    compare,
    expand_rules,
    requests_in,
    summary,
    table,
)

USER = "system:serviceaccount:quintet-system:quintet-shop"
OURS = (
    'RBAC: allowed by ClusterRoleBinding "quintet-shop" of ClusterRole "quintet-shop" to ServiceAccount "x"'
)
SHOP = Subject("shop", re.compile("(tests|quintet)-shop"), (Permission("", "pods", "list"),))


def an_audit_event(verb="list", *, user=USER, code=200, decision="allow", reason=OURS, acting=None, **target):
    entry = {
        "verb": verb,
        "user": {"username": user},
        "objectRef": {"resource": "pods", "apiVersion": "v1", **target},
        "responseStatus": {"code": code},
        "annotations": {"authorization.k8s.io/decision": decision, "authorization.k8s.io/reason": reason},
    }
    return {**entry, "impersonatedUser": {"username": acting}} if acting else entry


def usage_of(*entries, holder=SHOP):
    (verdict,) = compare([holder], (asked for entry in entries for asked in requests_in(entry)))
    return verdict


def test_permission_needed_by_request_is_used():
    verdict = usage_of(an_audit_event())
    assert verdict.unused == []
    assert (verdict.used[Permission("", "pods", "list")], verdict.refused, verdict.lent) == (1, {}, {})


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(an_audit_event("watch"), id="another verb"),
        pytest.param(an_audit_event(apiGroup="metrics.k8s.io"), id="another group"),
        pytest.param(an_audit_event(resource="secrets"), id="another resource"),
        pytest.param(an_audit_event(subresource="log"), id="a subresource"),
    ],
)
def test_request_for_something_else_does_not_use_permission(entry):
    verdict = usage_of(entry)
    assert verdict.unused == [Permission("", "pods", "list")]
    assert list(verdict.lent), "it was allowed by something that we do not ship"


def test_request_of_other_user_is_not_counted():
    for user in ("admin", "system:serviceaccount:shop:casconfig"):
        assert usage_of(an_audit_event(user=user)).requests == 0
    assert list(requests_in({**an_audit_event(), "user": {}})) == [], "the user is unknown"


def test_request_without_object_needs_no_permission():
    entry = {name: value for name, value in an_audit_event().items() if name != "objectRef"}
    assert list(requests_in(entry)) == []


def test_forbidden_request_is_reported_with_verb_and_object():
    verdict = usage_of(an_audit_event("delete", name="web", decision="forbid", reason="", code=403))
    assert dict(verdict.refused) == {"delete pods web": 1}
    assert "FORBIDDEN, 1 times" in table([verdict])


def test_forbidden_request_with_permission_means_role_was_missing():
    verdict = usage_of(an_audit_event(decision="forbid", reason=""))
    assert (dict(verdict.away), verdict.refused) == ({"list pods": 1}, {})
    assert verdict.unused == [Permission("", "pods", "list")]
    assert "role missing, 1 times" in table([verdict])


def test_expected_denial_is_not_reported():
    holder = Subject("shop", SHOP.accounts, (), refusals=frozenset({("", "secrets", "get")}))
    assert usage_of(an_audit_event("get", resource="secrets", decision="forbid"), holder=holder).refused == {}


@pytest.mark.parametrize("role", ["system:discovery", "system:basic-user", "offered"])
def test_permission_from_default_or_expected_role_is_not_reported(role):
    reason = f'RBAC: allowed by ClusterRoleBinding "any" of ClusterRole "{role}" to Group "x"'
    holder = Subject("shop", SHOP.accounts, (), roles=re.compile("offered"))
    assert usage_of(an_audit_event(reason=reason), holder=holder).lent == {}


def test_rule_with_resource_names_is_used_only_by_these_names():
    rule = {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": ["tests-shop-certs"],
        "verbs": ["get"],
    }
    holder = Subject("shop", SHOP.accounts, tuple(expand_rules([rule], "tests-shop")))
    assert usage_of(an_audit_event("get", resource="secrets", name="other"), holder=holder).unused
    for account in ("tests-shop", "quintet-shop"):
        entry = an_audit_event(
            "get",
            user=f"system:serviceaccount:any:{account}",
            resource="secrets",
            name=f"{account}-certs",
        )
        assert usage_of(entry, holder=holder).unused == []


def test_rule_for_own_namespace_is_not_used_elsewhere():
    holder = Subject("shop", SHOP.accounts, (Permission("", "pods", "list", own=True),))
    assert usage_of(an_audit_event(namespace="elsewhere"), holder=holder).unused
    assert usage_of(an_audit_event(namespace="quintet-system"), holder=holder).unused == []


def test_impersonated_request_needs_impersonate_permission_and_counts_for_other_user():
    acting = an_audit_event("patch", acting="system:serviceaccount:shop:casconfig")
    assert [(asked.account, asked.verb, asked.resource) for asked in requests_in(acting)] == [
        ("quintet-shop", "impersonate", "serviceaccounts"),
        ("casconfig", "patch", "pods"),
    ]


def test_apply_that_creates_needs_create_permission():
    assert [asked.verb for asked in requests_in(an_audit_event("patch", code=201, name="web"))] == [
        "patch",
        "create",
    ]
    assert [asked.verb for asked in requests_in(an_audit_event("patch", code=200, name="web"))] == ["patch"]


def test_granted_permission_must_be_held_in_same_scope():
    wide, own = Permission("", "pods", "get"), Permission("", "pods", "get", own=True)
    holder = Subject("shop", SHOP.accounts, (wide, own), given=frozenset({own}))
    assert usage_of(holder=holder).unused == [wide]


def test_combined_service_account_is_checked_for_denials_only():
    holder = Subject("all", SHOP.accounts, (Permission("", "pods", "list"),), together=True)
    verdict = usage_of(an_audit_event("delete", decision="forbid"), holder=holder)
    assert (verdict.unused, len(verdict.refused)) == ([], 1)


def test_permission_kept_for_other_programs_is_not_unused():
    held = Permission("", "pods", "list")
    assert usage_of(holder=Subject("shop", SHOP.accounts, (held,), kept=frozenset({held}))).unused == []


def test_finalizers_permission_never_appears_in_requests():
    holder = Subject("shop", SHOP.accounts, (Permission("example.com", "shops/finalizers", "update"),))
    assert usage_of(holder=holder).unused == []


def test_summary_has_one_line_per_service_account():
    lines = summary([usage_of(an_audit_event()), usage_of()]).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["shop", "1", "1", "0", "0", "0", "0", "0"],
        ["shop", "1", "0", "0", "0", "0", "1", "0"],
    ]


def test_every_shipped_service_account_is_checked_exactly_once():
    found = list_subjects()
    assert {
        "all in one",
        "run of a checkup",
        "configs",
        "jsonserver",
        "checkup",
        "casconfig",
        "statefulcluster",
        "eventing",
        "operator",
        "dispatcher",
    } == {holder.name for holder in found}
    assert all(holder.held for holder in found)
    for account in (
        "quintet-eventing",
        "tests-checkup",
        "kiagnose-checkup-controller",
        "quintet-operator",
        "quintet",
    ):
        assert sum(bool(holder.accounts.fullmatch(account)) for holder in found) == 1, account
    assert (
        str(AuditedRequest("a", "b", "get", "apps", "deployments/scale", "web"))
        == "get deployments.apps/scale web"
    )
