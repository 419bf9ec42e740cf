"""Every template that passes validation can be merged, and the result keeps what the controllers need."""

import posixpath
from typing import Any

import msgspec
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from kit.manifests.pod_patches import pod_patches
from quintet.apis import checkup as checkups
from quintet.apis.checkup.contract import VARIABLES
from quintet.apis.checkup.validation import spec_errors
from quintet.apis.fields import FieldPath
from quintet.apis.jsonserver import JsonServer, validate
from quintet.apis.kubernetes_schemas import EXACT, load_schemas, structural_schema
from quintet.apis.structural import value_errors
from quintet.controllers.checkup.decide import desired as checkup_desired
from quintet.controllers.decide.overlay import KEYS, overlay
from quintet.controllers.jsonserver.decide import desired as jsonserver_desired

POD = structural_schema(load_schemas(), "io.k8s.api.core.v1.PodSpec", EXACT)


def a_jsonserver(pod: Any, storage: str = "ReadOnly") -> dict[str, Any]:
    return {
        "metadata": {"name": "app-x", "namespace": "ns", "uid": "u"},
        "spec": {"jsonConfig": "{}", "storage": storage, "template": {"spec": pod}},
    }


def a_checkup(pod: Any) -> dict[str, Any]:
    spec = {"image": "i", "serviceAccountName": "a", "timeoutSeconds": 60, "params": {"message": "x"}}
    return {
        "metadata": {"name": "c", "namespace": "ns", "uid": "u"},
        "spec": {**spec, "template": {"spec": pod}},
    }


def _container(pod: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in pod["containers"] if each["name"] == name)


@given(pod_patches(), st.sampled_from(["ReadOnly", "Ephemeral"]))
def test_admitted_template_of_jsonserver_gives_a_pod_that_serves_its_data(patch, storage):
    body = a_jsonserver(patch, storage)
    errors = validate(body).errors
    event("refused" if errors else "admitted")
    if errors:
        assert all(str(error).startswith("spec.template.spec") for error in errors)
        return
    server = msgspec.convert(body, JsonServer)
    pod = jsonserver_desired.deployment(server, "image")["spec"]["template"]["spec"]
    assert value_errors(POD, pod, FieldPath("pod")) == []
    main = _container(pod, "json-server")
    mounted = [
        m for m in main["volumeMounts"] if f"{posixpath.normpath(m['mountPath'])}/".startswith("/data/")
    ]
    assert len(mounted) == 1
    source = next(volume for volume in pod["volumes"] if volume["name"] == "json-config")
    assert source == {"name": "json-config", "configMap": {"name": "app-x"}}
    assert pod["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod
    assert "serviceAccountToken" not in str(pod)
    assert "podCertificate" not in str(pod)


@given(pod_patches())
def test_admitted_template_of_checkup_gives_a_pod_with_its_variables(patch):
    body = a_checkup(patch)
    errors = spec_errors(body["spec"])
    event("refused" if errors else "admitted")
    if errors:
        assert all(str(error).startswith("spec.template.spec") for error in errors)
        return
    checkup = msgspec.convert(body, checkups.Checkup)
    pod = checkup_desired.job(checkup, "n", 1)["spec"]["template"]["spec"]
    assert value_errors(POD, pod, FieldPath("pod")) == []
    assert pod["serviceAccountName"] == "a"
    main = _container(pod, "checkup")
    assert main["image"] == "i"
    values = {each["name"]: each.get("value") for each in main["env"]}
    assert values.keys() >= {*VARIABLES, "MESSAGE"}
    assert values["MESSAGE"] == "x"
    assert values["CONFIGMAP_NAME"] == "n"


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param({"containers": [{"name": "json-server", "volumeMounts": ["x"]}]},
                     "containers[0].volumeMounts[0]: Invalid type", id="text as a mount"),
        pytest.param({"containers": [{"name": "json-server", "ports": ["x"]}]},
                     "containers[0].ports[0]: Invalid type", id="text as a port"),
        pytest.param({"containers": None}, "containers: Forbidden", id="no containers"),
        pytest.param({"volumes": None}, "volumes: Forbidden", id="no volumes"),
        pytest.param({"containers": [{"name": "json-server", "volumeMounts": None}]},
                     "containers[0].volumeMounts: Forbidden", id="no mounts"),
        pytest.param({"tolerances": []}, "tolerances: Unsupported value: there is no such field", id="typo"),
        pytest.param({"containers": [{"name": "x", "env": [{"name": "A"}, {"name": "A"}]}]},
                     "env[1]: Duplicate value", id="the same variable twice"),
        pytest.param({"containers": [{"name": "x", "resources": {"limits": {"cpu": "many"}}}]},
                     "limits[cpu]: Invalid value", id="no quantity"),
        pytest.param({"volumes": [{"name": "p", "projected": {"sources": [
            {"podCertificate": {"signerName": "a/b", "keyType": "ED25519"}}]}}]},
            "volumes[0]: Forbidden", id="pod certificate"),
        *(pytest.param({"containers": [{"name": "json-server", "volumeMounts": [{"name": "x", "mountPath": path}]}]},
                       "volumeMounts[0]: Forbidden", id=f"mount at {path}")
          for path in ("/data", "/data/", "//data", "/data/db.json", "/tmp/../data", "data")),
    ],
)  # fmt: skip
def test_template_of_jsonserver_is_refused_with_its_field(pod, want):
    errors = [str(error) for error in validate(a_jsonserver(pod)).errors]
    assert any(want in error for error in errors), errors


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param({"containers": [{"name": "checkup", "env": None}]}, "containers[0].env: Forbidden", id="no env"),
        pytest.param({"containers": [{"name": "checkup", "restartPolicy": "Always"}]},
                     "containers[0].restartPolicy: Forbidden", id="restarts"),
        pytest.param({"containers": ["x"]}, "containers[0]: Invalid type", id="text as a container"),
    ],
)  # fmt: skip
def test_template_of_checkup_is_refused_with_its_field(pod, want):
    errors = [str(error) for error in spec_errors(a_checkup(pod)["spec"])]
    assert any(want in error for error in errors), errors


@pytest.mark.parametrize("cpu", [1, 0.5, "1", "500m"])
def test_quantity_may_be_a_number_or_a_string(cpu):
    pod = {"containers": [{"name": "json-server", "resources": {"limits": {"cpu": cpu}}}]}
    assert validate(a_jsonserver(pod)).errors == ()


def _keyed_lists(schema: Any) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, field in schema.get("properties", {}).items():
        if keys := field.get("x-kubernetes-list-map-keys"):
            found[name] = tuple(keys)
        found |= _keyed_lists(field) | _keyed_lists(field.get("items", {}))
    return found


def test_overlay_merges_exactly_the_lists_that_kubernetes_merges():
    # The metadata of an ephemeral volume's claim is no part of the pod.
    assert {**_keyed_lists(POD), **KEYS} == {**KEYS, "ownerReferences": ("uid",)}


def test_overlay_keeps_ports_of_the_same_number_and_another_protocol():
    base = {"ports": [{"containerPort": 53, "protocol": "UDP", "name": "a"}]}
    patch = {"ports": [{"containerPort": 53, "name": "b"}]}
    assert overlay(base, patch)["ports"] == [*base["ports"], *patch["ports"]]


def test_overlay_of_the_same_port_changes_it():
    base = {"ports": [{"containerPort": 53, "protocol": "TCP", "name": "a"}]}
    assert overlay(base, {"ports": [{"containerPort": 53, "hostPort": 1}]})["ports"] == [
        {"containerPort": 53, "protocol": "TCP", "name": "a", "hostPort": 1}
    ]


def test_overlay_leaves_no_null():
    assert overlay({}, {"a": {"b": None, "c": 1}, "d": [{"e": None}]}) == {"a": {"c": 1}, "d": [{}]}
