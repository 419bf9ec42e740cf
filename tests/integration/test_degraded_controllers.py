"""Controllers whose watches the API server refuses, next to others that work."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from kit.clock import FastClock
from kit.cluster.api import Api
from kit.cluster.control_plane import fresh_namespace
from kit.eventually import eventually
from kit.kinds import widgets as kind
from kit.kinds.widgets import WIDGETS, Widget, a_widget
from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.clock import SystemClock
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.config import ClusterConfig
from quintet.kube.transport import Transport
from quintet.local.cluster import Cluster
from quintet.observe.health import HealthServer
from quintet.runtime.builder import Builder
from quintet.runtime.manager import Manager
from quintet.runtime.reconcile import Result
from quintet.runtime.watch import WatchTimeouts

PATIENT = WatchTimeouts(first_retry=0.05, last_retry=0.5)


class Running:
    """A manager, and the text of its endpoints."""

    def __init__(self, manager: Manager, port: int) -> None:
        self.manager = manager
        self._port = port

    async def fetch(self, path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self._port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status, await answer.text()


@contextlib.asynccontextmanager
async def a_process(found: ClusterConfig, *builds: Any, **options: Any) -> AsyncIterator[Running]:
    health = HealthServer("127.0.0.1", 0, SystemClock())
    async with Transport(found) as transport:
        manager = Manager(Client(transport), FastClock(), "test", health=health, timeouts=PATIENT, **options)
        for build in builds:
            build(manager)
        port = await health.start()
        running = asyncio.create_task(manager.run())
        try:
            yield Running(manager, port)
        finally:
            manager.stop()
            await running


async def wait_until_reconciled(client: Client, key: ObjectKey) -> None:
    async def probe() -> None:
        widget = await client.get(WIDGETS, key, Widget)
        assert widget.status.message == "reconciled", widget.status

    await eventually(probe)


def gadget_crd(name: str) -> JsonObject:
    crd: JsonObject = {**kind.CRD, "metadata": {"name": f"{name}.test.quintet.dev"}}
    names = {"kind": name.title(), "plural": name, "singular": name, "listKind": f"{name.title()}List"}
    crd["spec"] = {**kind.CRD["spec"], "names": names}
    return crd


async def test_missing_crd_degrades_only_its_controller(widgets, api: Api, cluster: Cluster, namespace):
    name = f"gadget{secrets.token_hex(3)}"
    gadgets = Resource("test.quintet.dev", "v1", name.title(), name)
    seen: list[ObjectKey] = []

    def build(manager: Manager) -> None:
        async def reconcile(key: ObjectKey) -> Result:
            seen.append(key)
            return Result.done()

        Builder(manager, name, gadgets, Object).build(reconcile)

    found = config.load(str(cluster.kubeconfig))
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    async with a_process(found, kind.build, build, namespace=namespace) as process:
        await widgets.create(WIDGETS, a_widget("w"), Object, namespace=namespace)
        await wait_until_reconciled(widgets, ObjectKey(namespace, "w"))
        status, text = await process.fetch("/readyz")
        assert (status, f"[!] controllers: {name} waits: " in text) == (200, True), text
        assert (
            f'quintet_controller_degraded{{controller="{name}"}} 1.0' in (await process.fetch("/metrics"))[1]
        )
        await api.create(crds, gadget_crd(name))
        try:
            body = {"apiVersion": gadgets.api_version, "kind": gadgets.kind, "metadata": {"name": "g"}}

            async def created() -> None:
                await api.create(f"/{gadgets.path(namespace).lstrip('/')}", body)

            await eventually(created)

            async def works() -> None:
                assert ObjectKey(namespace, "g") in seen
                assert "[!]" not in (await process.fetch("/readyz"))[1]

            await eventually(works)
        finally:
            await api.delete(f"{crds}/{name}.test.quintet.dev")


async def test_process_without_a_working_controller_is_not_ready(cluster: Cluster, namespace):
    nothing = Resource("test.quintet.dev", "v1", "Nothing", "nothings")

    def build(manager: Manager) -> None:
        async def reconcile(key: ObjectKey) -> Result:
            return Result.done()

        Builder(manager, "nothing", nothing, Object).build(reconcile)

    async with a_process(config.load(str(cluster.kubeconfig)), build, namespace=namespace) as process:

        async def refused() -> None:
            status, text = await process.fetch("/readyz")
            assert status == 503
            assert "[-] controllers: nothing waits: " in text

        await eventually(refused)
        assert (await process.fetch("/healthz"))[0] == 200


@pytest.fixture
async def other(api: Api, namespace: str) -> AsyncIterator[str]:
    async with fresh_namespace(api, f"{namespace}-b") as name:
        yield name


async def test_forbidden_namespace_does_not_stop_the_others(
    widgets, api: Api, cluster: Cluster, namespace, other
):
    user = f"operator-{secrets.token_hex(3)}"
    found = config.load(str(cluster.client_kubeconfig(user)))

    async def permit(where: str) -> None:
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{where}/rolebindings"
        await api.create(path, {"metadata": {"name": user}, "roleRef": role, "subjects": [subject]})

    await permit(namespace)
    for where in (namespace, other):
        await widgets.create(WIDGETS, a_widget("w"), Object, namespace=where)
    async with a_process(found, kind.build, namespaces=[namespace, other]) as process:
        await wait_until_reconciled(widgets, ObjectKey(namespace, "w"))
        assert (await widgets.get(WIDGETS, ObjectKey(other, "w"), Widget)).status.message == ""
        assert "widget waits: " in (await process.fetch("/readyz"))[1]
        await permit(other)
        await wait_until_reconciled(widgets, ObjectKey(other, "w"))
