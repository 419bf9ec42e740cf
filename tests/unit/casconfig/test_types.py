"""The fields of a CASConfig as users write them, and what its definition says about them."""

import msgspec
import pytest

from quintet.apis.casconfig import CASCONFIG, CASConfig, Level, Mode, Policy
from quintet.apis.kubernetes_schemas import load_schemas, structural_schema
from quintet.apis.lint import problems
from quintet.manifests.crd import MOST_BYTES, custom_resource_definition, object_schema, size_as_annotation

BY_KUBERNETES = (".containers[*]", ".sidecars[*]", ".mainContainer", ".maincontainer", ".tolerations[*]")


def values_schema():
    spec = object_schema(CASCONFIG)["properties"]["spec"]
    return spec["properties"]["policies"]["items"]["properties"]["values"]["properties"]


def test_crd_contains_every_designed_field():
    policy = object_schema(CASCONFIG)["properties"]["spec"]["properties"]["policies"]["items"]["properties"]
    assert {"name", "values", "include"} <= set(policy)
    assert set(policy["include"]["properties"]) == {
        "labels",
        "annotations",
        "namespaces",
        "kinds",
        "names",
        "serviceAccounts",
    }
    assert set(values_schema()) == {
        "labels",
        "annotations",
        "envs",
        "containers",
        "sidecars",
        "mainContainer",
        "maincontainer",
        "tolerations",
        "from",
    }
    assert {"kind", "name", "path", "toType", "toKey"} <= set(values_schema()["from"]["items"]["properties"])


@pytest.mark.parametrize("field", ["containers", "sidecars", "mainContainer"])
def test_containers_have_the_kubernetes_schema(field):
    found = values_schema()[field]
    item = found["items"] if field != "mainContainer" else found
    theirs = structural_schema(load_schemas(), "io.k8s.api.core.v1.Container")
    assert item["properties"] == theirs["properties"]
    assert item["required"] == ["name"]
    assert "x-kubernetes-preserve-unknown-fields" not in item


def test_from_accepts_a_list_or_a_single_entry():
    schema = values_schema()["from"]
    assert "type" not in schema
    assert schema["x-kubernetes-preserve-unknown-fields"] is True
    source = {"kind": "ConfigMap", "name": "c", "path": ".data.x", "toType": "env", "toKey": "X"}
    for written in (source, [source]):
        policy = msgspec.convert({"name": "p", "include": {}, "values": {"from": written}}, Policy)
        assert [each.name for each in policy.values.sources] == ["c"]


def test_defaults_are_the_safe_choice():
    policy = {"name": "p", "include": {}, "values": {}}
    spec = msgspec.convert({"spec": {"policies": [policy]}}, CASConfig).spec
    assert (spec.scope.level, spec.mode, spec.max_targets) == (Level.NAMESPACE, Mode.APPLY, 100)
    assert spec.policies[0].override is False
    assert spec.policies[0].include.empty


def test_every_field_has_a_description_and_limits():
    found = problems(object_schema(CASCONFIG))
    assert [each for each in found if not any(part in each for part in BY_KUBERNETES)] == []


def test_crd_fits_into_the_last_applied_annotation():
    assert size_as_annotation(custom_resource_definition(CASCONFIG)) < MOST_BYTES
