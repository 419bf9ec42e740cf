"""Which objects a policy has as its targets, and the one criterion that keeps the others out."""

import itertools

import pytest

from quintet.apis.casconfig.matching import Candidate, match, miss
from quintet.apis.casconfig.template import POD
from quintet.apis.meta import ObjectKey, Resource
from unit.casconfig.objects import DEPLOYMENTS, TEMPLATE, a_deployment, a_policy, a_spec

CONFIG = ObjectKey("shop", "config")
WEB = Candidate(DEPLOYMENTS, a_deployment(), TEMPLATE)

# Every field of include: a value that the Deployment meets, and one that it does not.
FIELDS = {
    "labels": ({"app": "web"}, {"app": "other"}),
    "annotations": ({"note": "mine"}, {"note": "yours"}),
    "namespaces": (["shop", "other"], ["other"]),
    "kinds": (["Service", "Deployment"], ["Service"]),
    "names": (["db", "w*"], ["db"]),
    "serviceAccounts": (["runner"], ["default"]),
}
PAIRS = [
    (one, other, one_holds, other_holds)
    for one, other in itertools.combinations(FIELDS, 2)
    for one_holds, other_holds in itertools.product([True, False], repeat=2)
]


def the_miss(include, candidate=WEB):
    return miss(a_spec(a_policy(include=include, labels={"a": "b"})).policies[0], candidate)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("holds", [True, False])
def test_each_include_field_alone_decides(field, holds):
    found = the_miss({field: FIELDS[field][0 if holds else 1]})
    assert (found is None) is holds
    if found is not None:
        assert found.reason == field


@pytest.mark.parametrize(("one", "other", "one_holds", "other_holds"), PAIRS)
def test_all_include_fields_must_match_and_the_miss_names_the_field(one, other, one_holds, other_holds):
    found = the_miss({one: FIELDS[one][0 if one_holds else 1], other: FIELDS[other][0 if other_holds else 1]})
    assert (found is None) is (one_holds and other_holds)
    if found is not None:
        assert found.reason in {
            field for field, holds in ((one, one_holds), (other, other_holds)) if not holds
        }


@pytest.mark.parametrize(
    ("include", "want"),
    [
        ({"labels": {"app": "web", "tier": "back"}}, "its label tier is 'front', not 'back'"),
        ({"labels": {"zone": "a"}}, "it has no label zone"),
        ({"annotations": {"zone": "a"}}, "it has no annotation zone"),
        ({"kinds": ["v1/Service"]}, "its kind is apps/v1/Deployment, not v1/Service"),
        ({"names": ["a", "b*"]}, "its name is web, not a, b*"),
        ({"serviceAccounts": ["default"]}, "its ServiceAccount is runner, not default"),
        ({"names": [f"n{i}" for i in range(7)]}, "its name is web, not n0, n1, n2, n3, n4 or 2 more"),
        ({}, "include is empty, and matches nothing"),
    ],
)
def test_miss_reports_found_and_desired_value(include, want):
    assert the_miss(include).message == want


@pytest.mark.parametrize(
    ("pattern", "name", "want"),
    [
        ("web", "web", True),
        ("web", "web2", False),
        ("*", "anything", True),
        ("w*", "web", True),
        ("*b", "web", True),
        ("w*b", "web", True),
        ("w*w*b", "web", False),
        ("*e*", "web", True),
        ("ab*ba", "aba", False),
        ("ab*ba", "abba", True),
        ("a.c", "abc", False),
        ("*" * 200 + "x", "a" * 250, False),
    ],
)
def test_star_in_name_matches_any_text(pattern, name, want):
    candidate = Candidate(DEPLOYMENTS, a_deployment(name=name), TEMPLATE)
    assert (the_miss({"names": [pattern]}, candidate) is None) is want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("Deployment", True),
        ("apps/v1/Deployment", True),
        ("apps/v1beta1/Deployment", True),
        ("extensions/v1/Deployment", False),
        ("v1/Deployment", False),
        ("deployment", False),
    ],
)
def test_kind_matches_with_and_without_group(text, want):
    assert (the_miss({"kinds": [text]}) is None) is want


def test_policy_without_kinds_matches_every_kind_with_a_pod_template():
    service = Candidate(Resource("", "v1", "Service", "services"), {"metadata": {"name": "web"}})
    assert the_miss({"names": ["web"]}) is None
    assert the_miss({"names": ["web"]}, service).reason == "kinds"


def test_policy_without_kinds_does_not_match_jobs():
    job = Candidate(Resource("batch", "v1", "Job", "jobs"), a_deployment(), TEMPLATE)
    assert the_miss({"names": ["web"]}, job).reason == "kinds"
    assert the_miss({"names": ["web"], "kinds": ["Job"]}, job) is None


def test_pod_without_service_account_matches_default():
    plain = a_deployment()
    del plain["spec"]["template"]["spec"]["serviceAccountName"]
    assert the_miss({"serviceAccounts": ["default"]}, Candidate(DEPLOYMENTS, plain, TEMPLATE)) is None


def test_several_policies_match_in_order():
    spec = a_spec(
        a_policy("one", {"names": ["web"]}, labels={"a": "b"}),
        a_policy("two", {"names": ["db"]}, labels={"a": "b"}),
        a_policy("three", {"kinds": ["Deployment"]}, labels={"a": "b"}),
    )
    found = match(spec, CONFIG, WEB)
    assert [policy.name for policy in found.policies] == ["one", "three"]
    assert [str(each) for each in found.misses] == ["policy two: its name is web, not db"]


def candidate(group, kind, pod=None, **metadata):
    body = {"metadata": {"name": "it", "namespace": "shop", **metadata}}
    return Candidate(Resource(group, "v1", kind, f"{kind.lower()}s"), body, pod)


OWNER = {"kind": "ReplicaSet", "name": "web-1", "controller": True}

REFUSED = {
    "a role": (candidate("rbac.authorization.k8s.io", "Role"), "ForbiddenKind"),
    "a cluster role binding": (candidate("rbac.authorization.k8s.io", "ClusterRoleBinding"), "ForbiddenKind"),
    "a Secret": (candidate("", "Secret"), "ForbiddenKind"),
    "a ServiceAccount": (candidate("", "ServiceAccount"), "ForbiddenKind"),
    "a Node": (candidate("", "Node", namespace=""), "ForbiddenKind"),
    "a Namespace": (candidate("", "Namespace", namespace=""), "ForbiddenKind"),
    "a webhook": (candidate("admissionregistration.k8s.io", "MutatingWebhookConfiguration"), "ForbiddenKind"),
    "a definition": (candidate("apiextensions.k8s.io", "CustomResourceDefinition"), "ForbiddenKind"),
    "another config": (candidate("openebs.io", "CASConfig"), "ForbiddenKind"),
    "another namespace": (candidate("apps", "Deployment", namespace="other"), "OutOfScope"),
    "what is in no namespace": (candidate("storage.k8s.io", "StorageClass", namespace=""), "OutOfScope"),
    "the operator's own pods": (candidate("apps", "Deployment", namespace="quintet-system"), "OutOfScope"),
    "what is being deleted": (candidate("apps", "Deployment", deletionTimestamp="now"), "Terminating"),
    "a pod of a workload": (candidate("", "Pod", POD, ownerReferences=[OWNER]), "Controlled"),
}


@pytest.mark.parametrize(("target", "want"), REFUSED.values(), ids=REFUSED.keys())
def test_protected_objects_are_never_targets(target, want):
    spec = a_spec(a_policy(include={"names": ["*"]}, labels={"a": "b"}))
    found = match(spec, CONFIG, target, operator="quintet-system")
    assert found.policies == ()
    assert [each.reason for each in found.misses] == [want]


def test_controlled_pod_is_skipped_in_favour_of_its_workload():
    spec = a_spec(a_policy(include={"kinds": ["Pod"]}, labels={"a": "b"}))
    found = match(spec, CONFIG, REFUSED["a pod of a workload"][0])
    assert str(found.misses[0]) == "it is made by ReplicaSet web-1: target that instead"


@pytest.mark.parametrize(
    ("scope", "namespace", "want"),
    [
        ({}, "shop", True),
        ({}, "other", False),
        ({"namespaces": ["other"]}, "other", True),
        ({"namespaces": ["other"]}, "shop", False),
        ({"level": "cluster"}, "other", True),
        ({"level": "cluster"}, "", True),
        ({"level": "cluster"}, "kube-system", False),
        ({"level": "cluster"}, "quintet-system", False),
        ({"level": "cluster", "namespaces": ["other"]}, "other", True),
        ({"level": "cluster", "namespaces": ["other"]}, "shop", False),
        ({"level": "cluster", "namespaces": ["kube-system"]}, "kube-system", False),
        ({"namespaces": ["quintet-system"]}, "quintet-system", False),
    ],
)
def test_scope_limits_the_namespaces_of_targets(scope, namespace, want):
    spec = a_spec(a_policy(include={"names": ["*"]}, labels={"a": "b"}), scope=scope)
    target = candidate("apps", "Deployment", TEMPLATE, namespace=namespace)
    assert bool(match(spec, CONFIG, target, operator="quintet-system").policies) is want
