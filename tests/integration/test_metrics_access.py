"""Metrics over TLS: whose token may read them, as RBAC of a real API server decides."""

import contextlib
from collections.abc import AsyncIterator

import aiohttp

from kit.clock import VirtualClock
from kit.cluster.api import Api
from kit.cluster.service_accounts import context
from kit.eventually import eventually
from quintet.kube import config
from quintet.kube.access import FRESH_SECONDS
from quintet.kube.client import Client
from quintet.kube.transport import Transport
from quintet.local.cluster import Cluster
from quintet.manifests.rbac import metrics_reader_role
from quintet.processes.metrics import MetricsOptions, serving_metrics

RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def create_token(api: Api, namespace: str, name: str) -> str:
    """Create a ServiceAccount, and return a token."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(path, {"metadata": {"name": name}})
    kinds = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    issued = await api.create(f"{path}/{name}/token", kinds)
    return str(issued["status"]["token"])


@contextlib.asynccontextmanager
async def allowed_to_read_metrics(api: Api, namespace: str, name: str) -> AsyncIterator[None]:
    """Bind the shipped ClusterRole, under a name of its own, while inside."""
    own = f"{namespace}-metrics-reader"
    role = metrics_reader_role()
    await api.create(f"{RBAC}/clusterroles", {**role, "metadata": {**role["metadata"], "name": own}})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": own}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    binding = {"metadata": {"name": own}, "roleRef": reference, "subjects": [subject]}
    await api.create(f"{RBAC}/clusterrolebindings", binding)
    try:
        yield
    finally:
        await api.delete(f"{RBAC}/clusterrolebindings/{own}")
        await api.delete(f"{RBAC}/clusterroles/{own}")


async def ask(port: int | None, token: str) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"https://127.0.0.1:{port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=False) as answer:
        return answer.status, await answer.text()


async def test_metrics_are_served_to_tokens_that_may_read_them(cluster: Cluster, api: Api, namespace: str):
    """The process reviews tokens with the shipped permissions of its ServiceAccount."""
    clock = VirtualClock()
    options = MetricsOptions(address=("127.0.0.1", 0))
    reader, other = [await create_token(api, namespace, name) for name in ("prometheus", "somebody")]
    async with (
        Transport(config.load(str(cluster.kubeconfig), context("jsonserver"))) as transport,
        serving_metrics(options, Client(transport), clock) as port,
    ):
        assert (await ask(port, ""))[0] == 401
        assert (await ask(port, "no-token-of-this-cluster"))[0] == 401
        status, text = await ask(port, other)
        assert (status, text.partition(":")[2].partition(" ")[0]) == (
            403,
            f"serviceaccount:{namespace}:somebody",
        )

        async with allowed_to_read_metrics(api, namespace, "prometheus"):

            async def served() -> None:
                await clock.advance(FRESH_SECONDS)
                status, text = await ask(port, reader)
                assert status == 200, text
                assert "rest_client_requests_total" in text

            await eventually(served)
            assert (await ask(port, other))[0] == 403

        async def refused() -> None:
            await clock.advance(FRESH_SECONDS)
            assert (await ask(port, reader))[0] == 403

        await eventually(refused)
