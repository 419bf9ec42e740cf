"""A running operator whose identity is deleted and created again, and certificates that are replaced."""

import asyncio
import shutil
from pathlib import Path

import aiohttp
import pytest

from kit.clock import FastClock, VirtualClock
from kit.cluster.api import Api
from kit.cluster.client import whoami
from kit.eventually import eventually
from kit.kinds import widgets as kind
from kit.kinds.widgets import WIDGETS, Widget, a_widget
from quintet.apis.meta import Object, ObjectKey
from quintet.clock import SystemClock
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.identity import Identity
from quintet.kube.transport import Transport
from quintet.local.cluster import Cluster
from quintet.observe.health import HealthServer
from quintet.runtime.manager import Manager


async def fetch(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


async def create_service_account(api: Api, namespace: str) -> str:
    """Create the ServiceAccount of the operator, and return a token."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(path, {"metadata": {"name": "operator"}})
    kinds = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    issued = await api.create(f"{path}/operator/token", kinds)
    token: str = issued["status"]["token"]
    return token


@pytest.fixture
async def mounted(api: Api, cluster: Cluster, namespace: str, tmp_path: Path) -> config.ClusterConfig:
    """The configuration of a pod whose ServiceAccount may do everything in its namespace."""
    (tmp_path / "ca.crt").write_text(cluster.ca.read_text())
    (tmp_path / "namespace").write_text(namespace)
    (tmp_path / "token").write_text(await create_service_account(api, namespace))
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
    await api.create(bindings, {"metadata": {"name": "operator"}, "roleRef": role, "subjects": [subject]})
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(cluster.port)}
    return config.in_cluster(environ, tmp_path)


async def wait_until_reconciled(client: Client, key: ObjectKey) -> None:
    async def probe() -> None:
        widget = await client.get(WIDGETS, key, Widget)
        assert widget.status.message == "reconciled", widget.status

    await eventually(probe)


async def test_recreated_service_account_is_reported_and_its_new_token_used(
    widgets, api, mounted, namespace, tmp_path, monkeypatch
):
    monkeypatch.setattr(Identity, "GRACE_SECONDS", 1.0)
    health = HealthServer("127.0.0.1", 0, SystemClock())
    async with Transport(mounted) as transport:
        manager = Manager(
            Client(transport),
            FastClock(),
            "operator",
            namespace=namespace,
            health=health,
            lease=ObjectKey(namespace, "operator"),
        )
        kind.build(manager)
        port = await health.start()
        running = asyncio.create_task(manager.run())
        try:
            await widgets.create(WIDGETS, a_widget("before"), Object, namespace=namespace)
            await wait_until_reconciled(widgets, ObjectKey(namespace, "before"))

            await api.delete(f"/api/v1/namespaces/{namespace}/serviceaccounts/operator")
            token = await create_service_account(api, namespace)

            async def reported() -> None:
                status, text = await fetch(port, "/readyz")
                assert status == 503
                assert "[-] identity: the API server has rejected our credentials" in text
                assert (await fetch(port, "/healthz"))[0] == 200
                assert "quintet_identity_rejected 1.0" in (await fetch(port, "/metrics"))[1]

            await eventually(reported, within=60)
            await widgets.create(WIDGETS, a_widget("after"), Object, namespace=namespace)
            (tmp_path / "token").write_text(token)
            await wait_until_reconciled(widgets, ObjectKey(namespace, "after"))

            async def ready() -> None:
                assert (await fetch(port, "/readyz"))[0] == 200

            await eventually(ready)
        finally:
            manager.stop()
            await running


async def test_replaced_client_certificate_is_used_without_restart(cluster: Cluster, tmp_path: Path):
    first, second = (cluster.client_kubeconfig(f"user-{number}") for number in (1, 2))
    path = tmp_path / "kubeconfig"
    shutil.copy(first, path)
    clock = VirtualClock()
    async with Transport(config.load(str(path)), clock=clock) as transport:
        client = Client(transport)
        assert (await whoami(client)).username == "user-1"
        shutil.copy(second, path)
        assert (await whoami(client)).username == "user-1", "the connection is kept"
        await clock.advance(61.0)
        assert (await whoami(client)).username == "user-2"
