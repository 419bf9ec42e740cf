"""A CASConfig inside a JsonServer and inside a StatefulCluster, applied by their own controllers."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kit.eventually import eventually
from kit.faults.proxy import FaultProxy
from kit.kinds.jsonservers import a_jsonserver, children, install, jsonserver_operator, wait_for_state
from kit.kinds.statefulclusters import (
    create,
    list_claims,
    list_pods,
    list_revisions,
    update_spec,
    wait_until_settled,
)
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.jsonserver.types import FINALIZER
from quintet.apis.meta import Object, ObjectKey
from quintet.kube.client import Client

SIDECAR = {"name": "proxy", "image": "proxy:1", "resources": {"limits": {"cpu": "1000m"}}}
POLICIES = [
    {
        "name": "pods",
        "include": {"kinds": ["Deployment", "Pod"]},
        "values": {"envs": {"LEVEL": "debug"}, "sidecars": [SIDECAR], "tolerations": [{"key": "batch"}]},
    },
    {
        "name": "cost",
        "include": {"kinds": ["Service", "Deployment", "PersistentVolumeClaim", "Pod"]},
        "values": {"labels": {"cost-center": "4711"}},
    },
]
WITH: dict[str, Any] = {"policies": POLICIES}


@pytest.fixture(scope="module")
async def servers(client: Client) -> Client:
    await install(client)
    return client


@pytest.fixture
async def operator(servers, proxy: FaultProxy, namespace, tmp_path) -> AsyncIterator[None]:
    async with jsonserver_operator(proxy.write_kubeconfig(tmp_path), namespace=namespace):
        yield


@pytest.fixture
async def app(operator, servers: Client, namespace) -> ObjectKey:
    """A synced JsonServer with an embedded CASConfig."""
    body = a_jsonserver("app-configured", casConfig=WITH)
    body["metadata"]["finalizers"] = [FINALIZER]
    await servers.create(JSONSERVERS, body, Object, namespace=namespace)
    key = ObjectKey(namespace, "app-configured")
    await wait_for_state(servers, key, "Synced")
    return key


def containers(deployment):
    return {each["name"]: each for each in deployment["spec"]["template"]["spec"]["containers"]}


async def test_jsonserver_children_are_created_with_casconfig_values_in_one_write(
    app, servers: Client, proxy: FaultProxy
):
    await proxy.quiet(0.5)
    seen = await children(servers, app)
    found = containers(seen["Deployment"])
    assert found["json-server"]["env"] == found["proxy"]["env"] == [{"name": "LEVEL", "value": "debug"}]
    assert seen["Deployment"]["spec"]["template"]["spec"]["tolerations"] == [{"key": "batch"}]
    labelled = {
        kind for kind, child in seen.items() if child["metadata"]["labels"].get("cost-center") == "4711"
    }
    assert labelled == {"Service", "Deployment"}
    assert {child["metadata"].get("generation", 1) for child in seen.values()} == {1}, (
        "nothing is patched later"
    )


async def test_removing_casconfig_from_jsonserver_removes_values_from_children(app, servers: Client):
    await servers.patch(JSONSERVERS, app, {"spec": {"casConfig": None}}, Object)
    await wait_for_state(servers, app, "Synced")

    async def assert_gone():
        seen = await children(servers, app)
        assert list(containers(seen["Deployment"])) == ["json-server"]
        assert "env" not in containers(seen["Deployment"])["json-server"]
        assert "tolerations" not in seen["Deployment"]["spec"]["template"]["spec"]
        assert all("cost-center" not in child["metadata"]["labels"] for child in seen.values())

    await eventually(assert_gone, within=60)


async def test_invalid_embedded_casconfig_that_bypassed_webhook_is_reported_and_creates_nothing(
    operator, servers: Client, namespace
):
    broken = {"policies": [{**POLICIES[0], "values": {"mainContainer": {"name": "x", "image": "x:1"}}}]}
    body = a_jsonserver("app-broken", casConfig=broken)
    body["metadata"]["finalizers"] = [FINALIZER]
    await servers.create(JSONSERVERS, body, Object, namespace=namespace)
    server = await wait_for_state(servers, ObjectKey(namespace, "app-broken"), "Error")
    assert "spec.casConfig.policies[0].values.mainContainer: Forbidden" in server.status.message


async def test_adding_and_removing_casconfig_in_statefulcluster_rolls_out_revisions(
    cluster_operator, simulated_node, clusters: Client, namespace
):
    key = await create(clusters, namespace, replicas=2)
    await wait_until_settled(clusters, key)
    plain = [each["spec"] for each in await list_pods(clusters, namespace)]
    await update_spec(clusters, key, cluster={"casConfig": WITH})
    await wait_until_settled(clusters, key)
    for pod in await list_pods(clusters, namespace):
        assert [each["name"] for each in pod["spec"]["containers"]][-1] == "proxy"
        assert all({"name": "LEVEL", "value": "debug"} in each["env"] for each in pod["spec"]["containers"])
        assert pod["metadata"]["labels"]["cost-center"] == "4711"
    assert len(await list_revisions(clusters, namespace)) == 2
    await update_spec(clusters, key, cluster=None)
    await wait_until_settled(clusters, key)
    left = await list_pods(clusters, namespace)
    assert [list(map(name_of, pod["spec"]["containers"])) for pod in left] == [
        list(map(name_of, spec["containers"])) for spec in plain
    ]
    assert all("cost-center" not in pod["metadata"]["labels"] for pod in left)
    assert len(await list_revisions(clusters, namespace)) == 2, "the first template is a known revision"


async def test_new_claims_of_statefulcluster_have_casconfig_labels(
    cluster_operator, simulated_node, clusters: Client, namespace
):
    key = await create(clusters, namespace, replicas=1, cluster={"casConfig": WITH})
    await wait_until_settled(clusters, key)
    assert [
        claim["metadata"]["labels"]["cost-center"] for claim in await list_claims(clusters, namespace)
    ] == ["4711"]


def name_of(container):
    return container["name"]
