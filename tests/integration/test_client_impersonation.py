"""Impersonation of a ServiceAccount: requests have its permissions, not ours."""

from pathlib import Path
from typing import Any

import pytest

from kit.cluster.api import Api
from kit.cluster.client import CONFIG_MAPS, connect, whoami
from kit.cluster.objects import a_configmap
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy
from quintet.apis.meta import Object, ObjectKey
from quintet.kube.client import JSON, Client
from quintet.kube.errors import Forbidden

RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def bind(api: Api, namespace: str, account: str, *rules: dict[str, Any]) -> None:
    """Grant permissions in its namespace to a ServiceAccount."""
    base = f"{RBAC}/namespaces/{namespace}"
    await api.create(f"{base}/roles", {"metadata": {"name": account}, "rules": list(rules)})
    await api.create(
        f"{base}/rolebindings",
        {
            "metadata": {"name": account},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    )


READ = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
PATCH = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}


async def test_impersonated_request_has_service_account_and_its_groups(client: Client, namespace: str):
    user = await whoami(client.impersonate(ObjectKey(namespace, "casconfig")))
    assert user.username == f"system:serviceaccount:{namespace}:casconfig"
    assert set(user.groups) >= {"system:serviceaccounts", f"system:serviceaccounts:{namespace}"}


async def test_impersonated_verbs_have_only_permissions_of_service_account(
    client: Client, api: Api, namespace: str
):
    await api.create(f"/api/v1/namespaces/{namespace}/configmaps", a_configmap("one", a="b"))
    acting, key = client.impersonate(ObjectKey(namespace, "reader")), ObjectKey(namespace, "one")
    with pytest.raises(Forbidden):
        await acting.get(CONFIG_MAPS, key, Object)
    await bind(api, namespace, "reader", READ)

    async def assert_can_read() -> None:
        assert (await acting.get(CONFIG_MAPS, key, Object)).key == key

    await eventually(assert_can_read)  # a new permission takes effect with a delay
    names = [page async for page in acting.pages(CONFIG_MAPS, namespace=namespace)]
    assert len(names) == 1
    async with acting.watch(CONFIG_MAPS, namespace=namespace, initial_events=True) as batches:
        assert await anext(batches)
    with pytest.raises(Forbidden):
        await acting.patch(CONFIG_MAPS, key, {"data": {"a": "c"}}, Object)
    with pytest.raises(Forbidden):
        await acting.create(CONFIG_MAPS, a_configmap("two"), Object, namespace=namespace)
    with pytest.raises(Forbidden):
        await acting.delete(CONFIG_MAPS, key)
    with pytest.raises(Forbidden):
        async for _ in acting.pages(CONFIG_MAPS):
            pass


async def test_dry_run_returns_result_and_changes_nothing(client: Client, api: Api, namespace: str):
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    before = await api.create(path, a_configmap("one", a="b"))
    key, patch = ObjectKey(namespace, "one"), [{"op": "add", "path": "/data/c", "value": "d"}]
    tried = await client.patch(CONFIG_MAPS, key, patch, dict[str, Any], content_type=JSON, dry_run=True)
    assert tried["data"] == {"a": "b", "c": "d"}
    assert await api.get(f"{path}/one") == before


async def test_permission_to_impersonate_one_name_does_not_cover_another(
    api: Api, proxy: FaultProxy, namespace: str, tmp_path: Path
):
    name = f"impersonator-{namespace}"
    rule = {
        "apiGroups": [""],
        "resources": ["serviceaccounts"],
        "resourceNames": ["casconfig"],
        "verbs": ["impersonate"],
    }
    await api.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
    await api.create(
        f"{RBAC}/clusterrolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": namespace}],
        },
    )
    try:
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        await api.create(accounts, {"metadata": {"name": "operator"}})
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = (await api.create(f"{accounts}/operator/token", asked))["status"]["token"]
        async with connect(proxy.write_kubeconfig(tmp_path, token=token)) as operator:

            async def assert_impersonates() -> None:
                user = await whoami(operator.impersonate(ObjectKey(namespace, "casconfig")))
                assert user.username.endswith(":casconfig")

            await eventually(assert_impersonates)
            with pytest.raises(Forbidden, match="impersonate"):
                await whoami(operator.impersonate(ObjectKey(namespace, "default")))
    finally:
        await api.delete(f"{RBAC}/clusterrolebindings/{name}")
        await api.delete(f"{RBAC}/clusterroles/{name}")


@pytest.mark.parametrize("name", ["", "a b", "x\r\nImpersonate-Group: system:masters", "A", "é"])
def test_invalid_service_account_name_is_never_sent_as_header(client: Client, name: str):
    with pytest.raises(ValueError, match="not a valid ServiceAccount name"):
        client.impersonate(ObjectKey("default", name))


async def test_metadata_only_list_is_paged(client: Client, api: Api, namespace: str):
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in ("one", "two", "three"):
        await api.create(path, a_configmap(name, text="x" * 1000))
    pages = client.pages(
        CONFIG_MAPS, namespace=namespace, labels="made-by=test", page_size=2, metadata_only=True
    )
    found = [bytes(raw) for page in [page async for page in pages] for raw in page.items]
    assert len(found) == 3
    assert all(b'"labels"' in each and b"xxx" not in each for each in found), found
