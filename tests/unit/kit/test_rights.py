"""What accounts may do against what they did."""

import re

import pytest

from kit.permissions.report import holders
from kit.permissions.usage import Asked, Held, Holder, asked_in, expanded, judged, summary, table

USER = "system:serviceaccount:quintet-system:quintet-shop"
OURS = (
    'RBAC: allowed by ClusterRoleBinding "quintet-shop" of ClusterRole "quintet-shop" to ServiceAccount "x"'
)
SHOP = Holder("shop", re.compile("(tests|quintet)-shop"), (Held("", "pods", "list"),))


def an_entry(verb="list", *, user=USER, code=200, decision="allow", reason=OURS, acting=None, **target):
    entry = {
        "verb": verb,
        "user": {"username": user},
        "objectRef": {"resource": "pods", "apiVersion": "v1", **target},
        "responseStatus": {"code": code},
        "annotations": {"authorization.k8s.io/decision": decision, "authorization.k8s.io/reason": reason},
    }
    return {**entry, "impersonatedUser": {"username": acting}} if acting else entry


def verdict_on(*entries, holder=SHOP):
    (verdict,) = judged([holder], (asked for entry in entries for asked in asked_in(entry)))
    return verdict


def test_a_right_that_a_request_needed_is_used():
    verdict = verdict_on(an_entry())
    assert verdict.unused == []
    assert (verdict.used[Held("", "pods", "list")], verdict.refused, verdict.lent) == (1, {}, {})


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(an_entry("watch"), id="another verb"),
        pytest.param(an_entry(apiGroup="metrics.k8s.io"), id="another group"),
        pytest.param(an_entry(resource="secrets"), id="another resource"),
        pytest.param(an_entry(subresource="log"), id="a subresource"),
    ],
)
def test_a_right_is_not_used_by_a_request_for(entry):
    verdict = verdict_on(entry)
    assert verdict.unused == [Held("", "pods", "list")]
    assert list(verdict.lent), "it was allowed by something that we do not ship"


def test_a_request_of_somebody_else_counts_for_nobody():
    for user in ("admin", "system:serviceaccount:shop:casconfig"):
        assert verdict_on(an_entry(user=user)).requests == 0
    assert list(asked_in({**an_entry(), "user": {}})) == [], "it could not be told who it was"


def test_a_request_without_an_object_needs_no_rule_of_ours():
    entry = {name: value for name, value in an_entry().items() if name != "objectRef"}
    assert list(asked_in(entry)) == []


def test_what_was_refused_is_told_with_what_was_asked_for():
    verdict = verdict_on(an_entry("delete", name="web", decision="forbid", reason="", code=403))
    assert dict(verdict.refused) == {"delete pods web": 1}
    assert "REFUSED, 1 times" in table([verdict])


def test_a_refusal_of_what_is_held_means_that_the_role_was_away_and_is_no_use_of_it():
    verdict = verdict_on(an_entry(decision="forbid", reason=""))
    assert (dict(verdict.away), verdict.refused) == ({"list pods": 1}, {})
    assert verdict.unused == [Held("", "pods", "list")]
    assert "role away, 1 times" in table([verdict])


def test_a_refusal_that_a_test_wants_is_no_trouble():
    holder = Holder("shop", SHOP.accounts, (), refusals=frozenset({("", "secrets", "get")}))
    assert verdict_on(an_entry("get", resource="secrets", decision="forbid"), holder=holder).refused == {}


@pytest.mark.parametrize("role", ["system:discovery", "system:basic-user", "offered"])
def test_what_everybody_may_or_somebody_allowed_on_purpose_is_no_trouble(role):
    reason = f'RBAC: allowed by ClusterRoleBinding "any" of ClusterRole "{role}" to Group "x"'
    holder = Holder("shop", SHOP.accounts, (), roles=re.compile("offered"))
    assert verdict_on(an_entry(reason=reason), holder=holder).lent == {}


def test_a_rule_for_some_names_is_used_by_these_alone_however_the_account_is_called():
    rule = {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": ["tests-shop-certs"],
        "verbs": ["get"],
    }
    holder = Holder("shop", SHOP.accounts, tuple(expanded([rule], "tests-shop")))
    assert verdict_on(an_entry("get", resource="secrets", name="other"), holder=holder).unused
    for account in ("tests-shop", "quintet-shop"):
        entry = an_entry(
            "get",
            user=f"system:serviceaccount:any:{account}",
            resource="secrets",
            name=f"{account}-certs",
        )
        assert verdict_on(entry, holder=holder).unused == []


def test_a_rule_for_the_own_namespace_is_not_used_elsewhere():
    holder = Holder("shop", SHOP.accounts, (Held("", "pods", "list", own=True),))
    assert verdict_on(an_entry(namespace="elsewhere"), holder=holder).unused
    assert verdict_on(an_entry(namespace="quintet-system"), holder=holder).unused == []


def test_acting_as_another_takes_the_right_to_and_what_is_done_then_is_done_by_the_other():
    acting = an_entry("patch", acting="system:serviceaccount:shop:casconfig")
    assert [(asked.account, asked.verb, asked.resource) for asked in asked_in(acting)] == [
        ("quintet-shop", "impersonate", "serviceaccounts"),
        ("casconfig", "patch", "pods"),
    ]


def test_an_apply_that_creates_takes_the_right_to_create():
    assert [asked.verb for asked in asked_in(an_entry("patch", code=201, name="web"))] == ["patch", "create"]
    assert [asked.verb for asked in asked_in(an_entry("patch", code=200, name="web"))] == ["patch"]


def test_what_is_given_to_others_must_be_held_where_they_hold_it():
    wide, own = Held("", "pods", "get"), Held("", "pods", "get", own=True)
    holder = Holder("shop", SHOP.accounts, (wide, own), given=frozenset({own}))
    assert verdict_on(holder=holder).unused == [wide]


def test_who_holds_what_others_hold_is_judged_by_refusals_alone():
    holder = Holder("all", SHOP.accounts, (Held("", "pods", "list"),), together=True)
    verdict = verdict_on(an_entry("delete", decision="forbid"), holder=holder)
    assert (verdict.unused, len(verdict.refused)) == ([], 1)


def test_what_is_there_for_programs_of_others_is_not_unused():
    held = Held("", "pods", "list")
    assert verdict_on(holder=Holder("shop", SHOP.accounts, (held,), kept=frozenset({held}))).unused == []


def test_the_right_on_finalizers_is_never_seen_in_a_request():
    holder = Holder("shop", SHOP.accounts, (Held("example.com", "shops/finalizers", "update"),))
    assert verdict_on(holder=holder).unused == []


def test_the_summary_has_a_line_for_each_holder():
    lines = summary([verdict_on(an_entry()), verdict_on()]).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["shop", "1", "1", "0", "0", "0", "0", "0"],
        ["shop", "1", "0", "0", "0", "0", "1", "0"],
    ]


def test_every_account_that_we_ship_is_judged_and_no_account_by_two():
    found = holders()
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
    assert str(Asked("a", "b", "get", "apps", "deployments/scale", "web")) == "get deployments.apps/scale web"
