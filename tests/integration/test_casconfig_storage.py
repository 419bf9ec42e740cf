"""Assumptions of the CASConfig decisions about the API server, checked against a real one."""

import asyncio
from typing import Any

import pytest

from kit.cluster.api import RefusedError
from kit.eventually import eventually
from kit.kinds.jsonservers import ROOT
from quintet.apis.casconfig import CASCONFIGS
from quintet.apis.casconfig.injection import desired_settings
from quintet.apis.casconfig.layers import beneath, build_rewrite
from quintet.apis.casconfig.sameness import same
from quintet.apis.casconfig.template import pod_place
from quintet.apis.meta import ObjectKey, Resource
from unit.casconfig.objects import a_policy, a_spec

JSON_PATCH = "application/json-patch+json"
CONFIG = ObjectKey("shop", "config")

# Everything that the API server defaults, normalises or drops.
CONTAINER: dict[str, Any] = {
    "name": "everything",
    "image": "example.com:5000/everything",
    "command": [],
    "args": ["a", "b"],
    "workingDir": "",
    "tty": False,
    "stdin": False,
    "env": [
        {"name": "EMPTY", "value": ""},
        {"name": "FIELD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {
            "name": "PART",
            "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1024Ki"}},
        },
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ],
    "envFrom": [{"configMapRef": {"name": "c", "optional": True}}],
    "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "hostPort": 0}],
    "resources": {
        "limits": {"cpu": "1000m", "memory": "1024Mi"},
        "requests": {"cpu": 0.5, "memory": 1073741824, "ephemeral-storage": "1e3"},
    },
    "volumeMounts": [{"name": "tmp", "mountPath": "/tmp", "readOnly": False}],
    "livenessProbe": {"httpGet": {"port": 80}},
    "readinessProbe": {"tcpSocket": {"port": "http"}, "initialDelaySeconds": 0},
    "startupProbe": {"grpc": {"port": 80}, "periodSeconds": 0},
    "lifecycle": {"preStop": {"httpGet": {"port": 80}}, "postStart": {"exec": {"command": ["true"]}}},
    "securityContext": {
        "runAsNonRoot": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "imagePullPolicy": "",
}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "it"}},
    "spec": {
        "initContainers": [{"name": "init", "image": "init:1"}],
        "containers": [{"name": "web", "image": "web:1", "env": [{"name": "LEVEL", "value": "info"}]}],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    },
}
SELECTED = {"selector": {"matchLabels": {"app": "it"}}, "template": TEMPLATE}
NEVER = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
KINDS = {
    "Deployment": (Resource("apps", "v1", "Deployment", "deployments"), SELECTED),
    "StatefulSet": (Resource("apps", "v1", "StatefulSet", "statefulsets"), SELECTED),
    "DaemonSet": (Resource("apps", "v1", "DaemonSet", "daemonsets"), SELECTED),
    "ReplicaSet": (Resource("apps", "v1", "ReplicaSet", "replicasets"), SELECTED),
    "CronJob": (
        Resource("batch", "v1", "CronJob", "cronjobs"),
        {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": NEVER}}},
    ),
}
VALUES: dict[str, Any] = {
    "labels": {"team": "a"},
    "annotations": {"example.com/note": "b"},
    "envs": {"LEVEL": "debug", "EMPTY": ""},
    "sidecars": [
        CONTAINER,
        {"name": "web", "resources": {"limits": {"cpu": "2000m"}}, "ports": [{"containerPort": 81}]},
    ],
    "tolerations": [{"key": "a", "operator": "Exists", "value": "", "effect": ""}],
}


async def fetch_document(api, resource):
    path = f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"
    return await api.get(f"/openapi/v3/{path}")


async def create_object(api, namespace, name):
    resource, spec = KINDS[name]
    body = {"apiVersion": resource.api_version, "kind": name, "metadata": {"name": "it"}, "spec": spec}
    await api.create(resource.path(namespace), body)
    return resource.path(namespace, "it"), pod_place(await fetch_document(api, resource), resource)


async def patch_object(api, path, decide):
    """Read, decide and patch, with retries on conflict; return the patch and the stored object."""

    async def once():
        live = await api.get(path)
        patch = list(decide(live).patch)
        if patch:
            live = await api.send("PATCH", path, patch, JSON_PATCH, {})
        return patch, live

    return await eventually(once)


def rewrite(live, pod, values=VALUES):
    asked = desired_settings(a_spec(a_policy(**values)).policies, beneath(live, CONFIG), {}, pod)
    return build_rewrite(live, CONFIG, asked.settings, pod)


def comparable_fields(obj):
    """Return the object without fields that controllers of Kubernetes write."""
    metadata = obj["metadata"]
    notes = {
        key: value for key, value in metadata.get("annotations", {}).items() if "kubernetes.io/" not in key
    }
    return obj["spec"], metadata.get("labels"), {key: notes[key] for key in notes if "daemonset" not in key}


@pytest.mark.parametrize("name", KINDS)
async def test_api_server_stores_written_values_and_undo_restores_previous_object(api, namespace, name):
    path, pod = await create_object(api, namespace, name)
    before = await api.get(path)
    _, after = await patch_object(api, path, lambda live: rewrite(live, pod))
    spec = after
    for step in pod:
        spec = spec[step]
    stored = next(each for each in spec["containers"] if each["name"] == "everything")
    added = {**stored, "env": [each for each in stored["env"] if each["name"] != "LEVEL"]}
    assert same(("containers", "everything"), CONTAINER, added), f"it is stored as {added}"
    assert rewrite(after, pod).patch == (), "a config that is in place writes nothing"
    assert rewrite(after, pod).retaken == ()
    _, left = await patch_object(api, path, lambda live: build_rewrite(live, CONFIG, ()))
    assert comparable_fields(left) == comparable_fields(before)


async def test_patch_with_stale_resource_version_conflicts_and_changes_nothing(api, namespace):
    path, pod = await create_object(api, namespace, "CronJob")
    old = await api.get(path)
    await api.merge(path, {"metadata": {"labels": {"theirs": "yes"}}})
    with pytest.raises(RefusedError) as refused:
        await api.send("PATCH", path, list(rewrite(old, pod).patch), JSON_PATCH, {})
    assert refused.value.code == 409
    assert (await api.get(path))["metadata"]["labels"] == {"theirs": "yes"}


@pytest.mark.parametrize(
    ("group", "version", "kind", "want"),
    [
        ("apps", "v1", "Deployment", "spec.template.spec"),
        ("apps", "v1", "ReplicaSet", "spec.template.spec"),
        ("batch", "v1", "Job", "spec.template.spec"),
        ("batch", "v1", "CronJob", "spec.jobTemplate.spec.template.spec"),
        ("", "v1", "ReplicationController", "spec.template.spec"),
        ("", "v1", "Pod", "spec"),
        ("", "v1", "PodTemplate", None),
        ("", "v1", "Service", None),
        ("", "v1", "ConfigMap", None),
        ("networking.k8s.io", "v1", "Ingress", None),
    ],
)
async def test_pod_template_is_found_in_openapi_schema(api, group, version, kind, want):
    resource = Resource(group, version, kind, f"{kind.lower()}s")
    found = pod_place(await fetch_document(api, resource), resource)
    assert (".".join(found) if found else None) == want


@pytest.fixture
async def configs(cluster, api, namespace):
    definition = ROOT / "config/crd/casconfigs.openebs.io.yaml"
    done = await asyncio.to_thread(cluster.kubectl, "apply", "--server-side", "-f", str(definition))
    assert done.returncode == 0, done.stderr

    async def served():
        await api.get(CASCONFIGS.path(namespace))

    await eventually(served)
    return CASCONFIGS.path(namespace)


def a_config(**values):
    return {
        "apiVersion": CASCONFIGS.api_version,
        "kind": CASCONFIGS.kind,
        "metadata": {"name": "config"},
        "spec": {"policies": [{"name": "p", "include": {"kinds": ["Deployment"]}, "values": values}]},
    }


SOURCE = {"kind": "ConfigMap", "name": "c", "path": ".data.x", "toType": "env", "toKey": "X"}


@pytest.mark.parametrize("source", [SOURCE, [SOURCE]], ids=["a single one", "a list"])
async def test_aliases_are_stored_unchanged_for_webhook_to_rewrite(api, configs, source):
    body = a_config(**{"from": source, "maincontainer": {"name": "a", "image": "a:1"}})
    stored = await api.create(configs, body, fieldValidation="Strict")
    assert stored["spec"]["policies"][0]["values"] == body["spec"]["policies"][0]["values"]


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ({"containers": [{"name": "a", "imagee": "x"}]}, "imagee"),
        ({"sidecars": [{"image": "x"}]}, "name"),
        ({"mainContainer": {"name": "a", "ports": [{"containerPort": "http"}]}}, "containerPort"),
        ({"tolerations": [{"key": "a", "effects": "x"}]}, "effects"),
        ({"from": [{**SOURCE, "toType": "secret"}]}, "toType"),
    ],
)
async def test_containers_are_validated_against_kubernetes_schema(api, configs, values, want):
    with pytest.raises(RefusedError, match=want):
        await api.create(configs, a_config(**values), fieldValidation="Strict")
