"""An installation for some namespaces: permissions, webhooks and watches there, and nothing anywhere else."""

from collections.abc import AsyncIterator

import pytest

from kit.cli.quintet import apply, with_webhooks
from kit.cluster.api import Api
from kit.cluster.control_plane import fresh_namespace
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy
from kit.kinds.jsonservers import a_jsonserver, install, jsonserver_operator
from kit.kinds.suite import (
    a_flavour,
    apply_quintet,
    installed_operator,
    suite_operator,
    wait_for_condition,
    wait_until_settled,
)
from quintet.kube.client import Client

JSON_SERVERS = "/apis/example.com/v1/namespaces/{}/jsonservers"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles"
ROLE = "quintet-jsonserver-namespaced"


@pytest.fixture
async def shop(api: Api) -> AsyncIterator[str]:
    async with fresh_namespace(api, "shop") as name:
        yield name


@pytest.fixture
async def outside(api: Api) -> AsyncIterator[str]:
    async with fresh_namespace(api, "outside") as name:
        yield name


async def wait_until_gone(api: Api, path: str) -> None:
    async def gone() -> None:
        assert not await api.exists(path), await api.get(path)

    await eventually(gone, within=60)


async def wait_for_role(api: Api, namespace: str, *, exists: bool) -> None:
    async def probe() -> None:
        assert await api.exists(f"{ROLES.format(namespace)}/{ROLE}") is exists

    await eventually(probe, within=60)


async def test_webhooks_of_some_namespaces_ignore_objects_in_others(
    cluster, client: Client, api: Api, namespace, outside
):
    await install(client)
    there, elsewhere = (JSON_SERVERS.format(each) for each in (namespace, outside))
    async with with_webhooks(
        cluster.kubeconfig, "jsonserver", options=("--namespace", f"default,{namespace}")
    ):
        for where in (namespace, outside):
            done = apply(cluster, where, a_jsonserver("app-books"))
            assert done.returncode == 0, done.stderr
        inside = await api.get(f"{there}/app-books")
        assert inside["metadata"]["finalizers"] == ["example.com/jsonserver"]
        other = await api.get(f"{elsewhere}/app-books")
        assert "finalizers" not in other["metadata"], "nobody reconciles it, so its deletion would hang"
        for path in (f"{elsewhere}/app-books", f"{there}/app-books"):
            await api.delete(path)
            await wait_until_gone(api, path)


async def test_controller_of_some_namespaces_works_with_roles_there_only(
    api: Api, client: Client, proxy: FaultProxy, namespace, shop, outside, tmp_path, simulated_node
):
    flavour = a_flavour(namespace)
    async with installed_operator(api, flavour) as token, suite_operator(proxy, token, tmp_path, flavour):
        await apply_quintet(api, controllers=["jsonserver"], namespaces=[shop])
        await wait_until_settled(client, ready="1/1")
        assert await api.exists(f"{ROLES.format(shop)}/{ROLE}")
        assert not await api.exists(f"{ROLES.format(outside)}/{ROLE}")
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/quintet-jsonserver/token"
        made = await api.create(account, {"spec": {"expirationSeconds": 3600}})
        folder = tmp_path / "controller"
        folder.mkdir()
        kubeconfig = proxy.write_kubeconfig(folder, token=made["status"]["token"])
        async with jsonserver_operator(kubeconfig, context=None, namespaces=(shop,)):
            for where in (shop, outside):
                await api.create(JSON_SERVERS.format(where), a_jsonserver("app-books"))

            async def reconciled() -> None:
                found = await api.get(f"{JSON_SERVERS.format(shop)}/app-books")
                assert found["status"]["state"] == "Synced", found

            await eventually(reconciled, within=60)
            other = await api.get(f"{JSON_SERVERS.format(outside)}/app-books")
            assert "finalizers" not in other["metadata"]
            assert "status" not in other
            # The namespace controller may delete the Role before the JsonServer.
            await api.delete(f"/api/v1/namespaces/{shop}")
            await wait_until_gone(api, f"/api/v1/namespaces/{shop}")


async def test_role_follows_the_labels_of_namespaces(
    api: Api, client: Client, proxy: FaultProxy, namespace, shop, tmp_path, simulated_node
):
    flavour = a_flavour(namespace)
    async with installed_operator(api, flavour) as token, suite_operator(proxy, token, tmp_path, flavour):
        selector = {"matchLabels": {"quintet-test": namespace}}
        await apply_quintet(api, controllers=["jsonserver"], namespaceSelector=selector)
        await wait_for_condition(client, "Available", "False", "NoNamespaces")
        await api.merge(f"/api/v1/namespaces/{shop}", {"metadata": {"labels": {"quintet-test": namespace}}})
        await wait_for_role(api, shop, exists=True)
        await wait_until_settled(client, ready="1/1")
        deployment = f"/apis/apps/v1/namespaces/{namespace}/deployments/quintet-jsonserver"
        (container,) = (await api.get(deployment))["spec"]["template"]["spec"]["containers"]
        assert f"--namespace={shop}" in container["args"]
        await api.merge(f"/api/v1/namespaces/{shop}", {"metadata": {"labels": {"quintet-test": None}}})
        await wait_for_role(api, shop, exists=False)
        await wait_until_gone(api, deployment)


async def test_missing_namespace_is_reported_until_it_exists(
    api: Api, client: Client, proxy: FaultProxy, namespace, shop, tmp_path, simulated_node
):
    flavour, later = a_flavour(namespace), f"{namespace}-later"
    async with installed_operator(api, flavour) as token, suite_operator(proxy, token, tmp_path, flavour):
        await apply_quintet(api, controllers=["jsonserver"], namespaces=[shop, later])
        quintet = await wait_for_condition(client, "Degraded", "True", "MissingNamespace")
        assert any(later in each.message for each in quintet.status.conditions)
        await wait_for_role(api, shop, exists=True)
        await api.create("/api/v1/namespaces", {"metadata": {"name": later}})
        await wait_for_role(api, later, exists=True)
        await wait_for_condition(client, "Degraded", "False")
        await api.delete(f"/api/v1/namespaces/{later}")
