"""The schema of a StatefulCluster is that of a StatefulSet, as a real API server enforces it."""

import asyncio
import copy
import json

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kit.cluster.api import RefusedError
from kit.eventually import eventually
from kit.kinds.jsonservers import ROOT
from kit.kinds.statefulcluster_manifests import WEB, a_cluster, with_value
from quintet.apis.kubernetes_schemas import load_schemas, structural_schema
from quintet.apis.statefulcluster import LONGEST_NAME, STATEFULCLUSTERS
from quintet.controllers.suite.decide.schemas import incompatible_changes
from quintet.local.build import versions
from quintet.manifests.openapi import ROOTS, compact

DEFINITION = ROOT / "config/crd/statefulclusters.enge.me.yaml"
POD = "spec.template.spec"


@pytest.fixture(scope="module")
async def definition(cluster, api):
    """Install the committed CRD with plain `kubectl apply` and return kubectl's output."""
    done = await asyncio.to_thread(cluster.kubectl, "apply", "-f", str(DEFINITION))
    assert done.returncode == 0, done.stderr

    async def served():
        await api.get(STATEFULCLUSTERS.path("default"))

    await eventually(served)
    return done


@pytest.fixture
def clusters(definition, namespace):
    return STATEFULCLUSTERS.path(namespace)


async def test_kubectl_apply_accepts_crd_without_warning(definition, api):
    # If another test installed it by server-side apply, kubectl warns about the missing annotation.
    assert [line for line in definition.stderr.splitlines() if "last-applied-configuration" not in line] == []
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/statefulclusters.enge.me"
    found = await api.get(path)
    assert "kubectl.kubernetes.io/last-applied-configuration" in found["metadata"]["annotations"]
    states = {condition["type"]: condition["status"] for condition in found["status"]["conditions"]}
    assert states == {"NamesAccepted": "True", "Established": "True"}


async def test_committed_openapi_input_equals_that_of_api_server(api, cluster):
    if cluster.version != f"v{versions.DEFAULT.release}":
        pytest.skip(f"it is that of Kubernetes {versions.DEFAULT.name}, and this is {cluster.version}")
    served = compact(await api.get("/openapi/v3/apis/apps/v1"))
    now = load_schemas()
    different = sorted(name for name in {*served, *now} if served.get(name) != now.get(name))
    assert different == [], "kubectl get --raw /openapi/v3/apis/apps/v1 | python -m quintet.manifests.openapi"


async def test_crd_accepts_every_statefulset_that_api_server_accepts(api):
    served = compact(await api.get("/openapi/v3/apis/apps/v1"))
    (root,) = ROOTS
    theirs, ours = (
        {"type": "object", "properties": {"spec": structural_schema(each, root)}}
        for each in (served, load_schemas())
    )
    assert [*incompatible_changes(theirs, ours, "")] == []


async def test_documented_statefulset_is_accepted_with_changed_api_version_and_kind(api, clusters, namespace):
    stored = await api.create(clusters, a_cluster())
    assert written_part(WEB, stored["spec"]) == WEB
    statefulset = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": WEB}
    twin = await api.create(f"/apis/apps/v1/namespaces/{namespace}/statefulsets", statefulset)
    ours, theirs = stored["spec"], twin["spec"]
    defaulted = [name for name in theirs if name not in WEB]
    assert {name: ours.get(name) for name in defaulted if name != "updateStrategy"} == {
        name: theirs[name] for name in defaulted if name != "updateStrategy"
    }
    assert ours["updateStrategy"]["type"] == theirs["updateStrategy"]["type"]


def written_part(written, stored):
    """Return the part of a stored value that was written."""
    if isinstance(written, dict) and isinstance(stored, dict):
        return {key: written_part(value, stored[key]) for key, value in written.items() if key in stored}
    if isinstance(written, list) and isinstance(stored, list) and len(written) == len(stored):
        return [written_part(*pair) for pair in zip(written, stored, strict=True)]
    return stored


async def test_statefulset_as_shown_by_kubectl_is_accepted(api, clusters, namespace):
    path = f"/apis/apps/v1/namespaces/{namespace}/statefulsets"
    shown = await api.create(
        path, {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": WEB}
    )
    assert shown["spec"]["volumeClaimTemplates"][0]["status"] == {"phase": "Pending"}
    stored = await api.create(clusters, a_cluster() | {"spec": shown["spec"]})
    assert written_part(shown["spec"], stored["spec"]) == shown["spec"]


def values_of_schema(schema, path=()):
    """Generate values that a structural schema allows, with every field set."""
    if schema.get("x-kubernetes-int-or-string"):
        return st.sampled_from([3, "3", "30%"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "properties" in schema:
        return st.fixed_dictionaries(
            {name: values_of_schema(child, (*path, name)) for name, child in schema["properties"].items()}
        )
    if "additionalProperties" in schema:
        return st.dictionaries(
            st.sampled_from(["a", "b"]), values_of_schema(schema["additionalProperties"]), min_size=1
        )
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return (
            st.sampled_from([{"any": ["thing", 1]}])
            if schema.get("type")
            else st.sampled_from([0.5, 2, "1Gi"])
        )
    match schema["type"]:
        case "array":
            # One item: list keys must be unique.
            return st.lists(values_of_schema(schema["items"], path), min_size=1, max_size=1)
        case "integer":
            return st.integers(min_value=0, max_value=2**31 - 1)
        case "boolean":
            return st.booleans()
        case "number":
            return st.sampled_from([0.5, 2.0])
    if schema.get("format") == "date-time":
        return st.just("2024-02-29T01:02:03Z")
    return st.text("abc-XYZ/ é\n", min_size=1, max_size=8)


@pytest.mark.parametrize("examples", [3, pytest.param(10, marks=pytest.mark.exhaustive)])
async def test_every_statefulset_spec_field_is_stored_without_pruning(examples, api, clusters):
    schema = structural_schema(load_schemas(), ROOTS[0])
    names = iter(range(10**6))
    loop = asyncio.get_running_loop()

    # Shrinking a counterexample of five hundred fields takes minutes.
    @settings(
        max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None
    )
    @given(values_of_schema(schema))
    def kept(spec):
        spec = copy.deepcopy(spec)
        # Our own CEL rules are tested below.
        spec["updateStrategy"] = {
            "type": "RollingUpdate",
            "rollingUpdate": {"partition": 1, "maxUnavailable": "30%"},
        }
        spec["serviceName"] = "service"
        spec["podManagementPolicy"] = "Parallel"
        spec["persistentVolumeClaimRetentionPolicy"] = {"whenDeleted": "Delete", "whenScaled": "Retain"}
        spec["template"]["spec"]["restartPolicy"] = "Always"
        del spec["template"]["spec"]["activeDeadlineSeconds"]
        spec["volumeClaimTemplates"][0]["metadata"]["name"] = "data"
        body = a_cluster(f"every-{next(names)}") | {"spec": spec}
        stored = asyncio.run_coroutine_threadsafe(api.create(clusters, body), loop).result(60)
        assert stored["spec"] == spec

    await asyncio.to_thread(kept)


async def test_null_and_empty_values_are_treated_as_in_statefulset(api, clusters):
    body = with_value(a_cluster(), "spec.template.metadata.creationTimestamp", "x")
    body["spec"]["template"]["metadata"] |= {"creationTimestamp": None, "annotations": None}
    body["spec"]["template"]["spec"] |= {"volumes": None, "restartPolicy": ""}
    body["spec"]["template"]["spec"]["containers"][0] |= {"imagePullPolicy": "", "env": None}
    body["spec"] |= {"replicas": None, "updateStrategy": None}
    stored = (await api.create(clusters, body))["spec"]
    assert stored["replicas"] == 1
    assert stored["updateStrategy"] == {"type": "RollingUpdate"}
    assert stored["template"]["metadata"] == {"labels": {"app": "nginx"}}
    assert "volumes" not in stored["template"]["spec"]


REFUSED = {
    "a name too long for pod names": (
        a_cluster("w" * (LONGEST_NAME + 1)),
        f"must be at most {LONGEST_NAME} lower-case letters",
    ),
    "a name with a dot": (a_cluster("web.site"), "must be at most"),
    "a negative number of replicas": (a_cluster(replicas=-1), "spec.replicas"),
    "restartPolicy of Jobs": (
        with_value(a_cluster(), f"{POD}.restartPolicy", "Never"),
        "spec.restartPolicy must be Always",
    ),
    "a deadline": (
        with_value(a_cluster(), f"{POD}.activeDeadlineSeconds", 5),
        "spec.activeDeadlineSeconds must not be set",
    ),
    "an unknown update strategy": (
        a_cluster(updateStrategy={"type": "Recreate"}),
        'Unsupported value: "Recreate": supported values: "RollingUpdate", "OnDelete"',
    ),
    "settings of a rolling update for another strategy": (
        a_cluster(updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
        "rollingUpdate is only allowed with type RollingUpdate",
    ),
    "maxUnavailable of zero": (
        a_cluster(updateStrategy={"rollingUpdate": {"maxUnavailable": 0}}),
        "must be a number above 0, or a percentage",
    ),
    "maxUnavailable over 100%": (
        a_cluster(updateStrategy={"rollingUpdate": {"maxUnavailable": "101%"}}),
        "must be a number above 0, or a percentage",
    ),
    "a misspelt value deep in the template": (
        with_value(a_cluster(), f"{POD}.containers.0.imagePullPolicy", "Allways"),
        "spec.template.spec.containers[0].imagePullPolicy: Unsupported value",
    ),
    "a container without a name": (
        with_value(a_cluster(), f"{POD}.containers.0.name", None),
        "spec.template.spec.containers[0].name: Required value",
    ),
    "an empty selector": (a_cluster(selector={}), "selector must not be empty"),
    "a claim template without a name": (
        with_value(a_cluster(), "spec.volumeClaimTemplates.0.metadata", {}),
        "every claim template needs a metadata.name",
    ),
    "an invalid claim template name": (
        with_value(a_cluster(), "spec.volumeClaimTemplates.0.metadata.name", "a.b"),
        "spec.volumeClaimTemplates[0].metadata.name",
    ),
    "no selector": (a_cluster(selector=None), "spec.selector: Required value"),
}


@pytest.mark.parametrize(("body", "want"), REFUSED.values(), ids=REFUSED)
async def test_api_server_rejects_invalid_object_without_webhook(body, want, api, clusters):
    with pytest.raises(RefusedError) as refusal:
        await api.create(clusters, body)
    assert refusal.value.code == 422, refusal.value
    assert want in str(refusal.value)


@pytest.mark.parametrize(
    ("path", "value", "want"),
    [
        ("spec.selector", {"matchLabels": {"app": "other"}}, "selector must not be changed"),
        ("spec.serviceName", "other", "serviceName must not be changed"),
        ("spec.serviceName", None, "serviceName must not be changed"),
        ("spec.podManagementPolicy", "Parallel", "podManagementPolicy must not be changed"),
        ("spec.volumeClaimTemplates", [], "only the requested size of volumeClaimTemplates can be changed"),
        ("spec.volumeClaimTemplates", None, "only the requested size of volumeClaimTemplates can be changed"),
        (
            "spec.volumeClaimTemplates.0.metadata.name",
            "data",
            "only the requested size of volumeClaimTemplates can be changed",
        ),
    ],
)
async def test_api_server_rejects_immutable_change_without_webhook(path, value, want, api, clusters):
    stored = await api.create(clusters, a_cluster())
    with pytest.raises(RefusedError) as refusal:
        await api.update(f"{clusters}/web", with_value(stored, path, value))
    assert want in str(refusal.value)


async def test_claim_template_can_grow(api, clusters):
    stored = await api.create(clusters, a_cluster())
    larger = with_value(stored, "spec.volumeClaimTemplates.0.spec.resources.requests.storage", "2Gi")
    assert (await api.update(f"{clusters}/web", larger))["metadata"]["generation"] == 2


async def test_scale_subresource_works_like_that_of_statefulset(api, clusters, cluster, namespace):
    await api.create(clusters, a_cluster())
    status = {"status": {"replicas": 2, "selector": "app=nginx", "ready": "2/3", "updatedReplicas": 1}}
    await api.merge(
        f"{clusters}/web/status", status | {"status": status["status"] | {"availableReplicas": 0}}
    )
    scale = await api.get(f"{clusters}/web/scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 2, "selector": "app=nginx"})
    done = cluster.kubectl("scale", "-n", namespace, "stc", "web", "--replicas=5")
    assert done.returncode == 0, done.stderr
    shown = cluster.kubectl("get", "-n", namespace, "stc").stdout.splitlines()
    assert [line.split()[:4] for line in shown] == [
        ["NAME", "READY", "UP-TO-DATE", "AVAILABLE"],
        ["web", "2/3", "1", "0"],
    ]
    listed = cluster.kubectl("get", "-n", namespace, "quintet", "-o", "name").stdout
    assert "statefulcluster.enge.me/web" in listed.splitlines()


@pytest.mark.parametrize(
    "sample", sorted((ROOT / "config/samples").glob("statefulcluster*.yaml")), ids=lambda path: path.stem
)
async def test_samples_are_accepted_without_pruning(sample, api, clusters):
    for body in yaml.safe_load_all(sample.read_text()):
        if body["kind"] == "StatefulCluster":
            stored = await api.create(clusters, body)
            assert written_part(body["spec"], stored["spec"]) == body["spec"]
            assert json.dumps(body)


async def test_server_side_apply_merges_lists_of_two_managers(api, clusters):
    await api.create(clusters, a_cluster())
    sidecar = {
        "name": "sidecar",
        "image": "x",
        "ports": [{"containerPort": 9}],
        "env": [{"name": "A", "value": "1"}],
    }
    patch = {
        "apiVersion": STATEFULCLUSTERS.api_version,
        "kind": STATEFULCLUSTERS.kind,
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [sidecar]}}},
    }
    applied = await api.apply(f"{clusters}/web", patch, manager="sidecars")
    assert [each["name"] for each in applied["spec"]["template"]["spec"]["containers"]] == [
        "nginx",
        "sidecar",
    ]
