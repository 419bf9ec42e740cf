"""What the webhooks of CASConfig say. The rules about single fields are tested in tests/unit/casconfig."""

import base64
import json

import pytest

from quintet.admission import review
from quintet.admission.casconfig import ADMISSION
from quintet.apis.casconfig import FINALIZER


def a_config(*policies, **spec):
    return {
        "apiVersion": "openebs.io/v1alpha1",
        "kind": "CASConfig",
        "metadata": {"name": "one", "namespace": "shop"},
        "spec": {"policies": list(policies), **spec},
    }


def a_policy(name="all", include=None, **values):
    include = {"kinds": ["Deployment"]} if include is None else include
    return {"name": name, "include": include, "values": values or {"labels": {"x": "y"}}}


def asked(obj, operation="CREATE", old=None):
    request = {
        "uid": "1",
        "operation": operation,
        "resource": {"group": "openebs.io", "version": "v1alpha1", "resource": "casconfigs"},
        "namespace": "shop",
        "name": "one",
        "object": obj,
        "oldObject": old,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(body).encode()


def judged(obj, **options):
    return json.loads(review.validate(ADMISSION, asked(obj, **options)))["response"]


def defaulted(obj, **options):
    return json.loads(review.mutate(ADMISSION, asked(obj, **options)))["response"]


def patch_of(response):
    return json.loads(base64.b64decode(response["patch"])) if response.get("patch") else []


def test_new_casconfig_gets_finalizer():
    (operation,) = patch_of(defaulted(a_config(a_policy())))
    assert (operation["path"], operation["value"]) == ("/metadata/finalizers", [FINALIZER])


def test_removed_finalizer_is_not_added_again():
    assert patch_of(defaulted(a_config(a_policy()), operation="UPDATE", old=a_config(a_policy()))) == []


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_aliases_are_rewritten_with_warning(operation):
    source = {"kind": "ConfigMap", "name": "a", "path": ".data.b", "toType": "env", "toKey": "B"}
    written = a_config(a_policy(maincontainer={"name": "app", "image": "a:1"}, **{"from": source}))
    answer = defaulted(written, operation=operation, old=None if operation == "CREATE" else a_config())
    paths = {each["path"]: each.get("value") for each in patch_of(answer)}
    assert paths["/spec/policies/0/values/mainContainer"] == {"name": "app", "image": "a:1"}
    assert paths["/spec/policies/0/values/from"] == [source]
    assert answer["warnings"] == [
        "spec.policies[0].values.maincontainer: was renamed to mainContainer",
        "spec.policies[0].values.from: was converted to a list of one item",
    ]


def test_empty_include_is_rejected():
    answer = judged(a_config(a_policy(include={})))
    assert not answer["allowed"]
    assert "an empty include matches nothing" in answer["status"]["message"]


def test_kinds_that_hold_permissions_are_rejected():
    answer = judged(a_config(a_policy(include={"kinds": ["Secret", "RoleBinding"]})))
    causes = {each["field"]: each["message"] for each in answer["status"]["details"]["causes"]}
    assert set(causes) == {"spec.policies[0].include.kinds[0]", "spec.policies[0].include.kinds[1]"}
    assert all("is never a target" in text for text in causes.values())


def test_invalid_casconfig_that_bypassed_webhook_can_be_labelled_and_released():
    bad = a_config(a_policy(include={}))
    assert judged(bad, operation="UPDATE", old=bad)["allowed"]


OVERLAPS = [
    pytest.param({}, {}, True, id="the same kind"),
    pytest.param({"kinds": ["Deployment"]}, {"kinds": ["StatefulSet"]}, False, id="other kinds"),
    pytest.param(
        {"kinds": ["Deployment"]}, {"kinds": ["apps/v1/Deployment"]}, True, id="one kind spelled twice"
    ),
    pytest.param({"names": ["a"]}, {"names": ["b"]}, False, id="other names"),
    pytest.param({"names": ["a*"]}, {"names": ["ab"]}, True, id="a glob may fit"),
    pytest.param({"labels": {"t": "a"}}, {"labels": {"t": "b"}}, False, id="labels that contradict"),
    pytest.param({"labels": {"t": "a"}}, {"labels": {"u": "b"}}, True, id="labels that go together"),
    pytest.param({"namespaces": ["a"]}, {"namespaces": ["b"]}, False, id="other namespaces"),
]


@pytest.mark.parametrize(("first", "second", "want"), OVERLAPS)
def test_policies_that_set_same_value_on_same_objects_cause_warning(first, second, want):
    kinds = {"kinds": ["Deployment"]}
    one = a_policy("one", {**kinds, **first}, envs={"A": "1", "B": "1"})
    other = a_policy("other", {**kinds, **second}, envs={"A": "2", "B": "1"})
    answer = judged(a_config(one, other))
    assert answer["allowed"]
    text = "policies one and other may have the same targets and both set variable A: other wins"
    assert (text in answer.get("warnings", ())) is want
