"""The API server is killed and restarted, loses its history, or does not respond."""

import asyncio
import base64

import aiohttp
import pytest

from kit.eventually import eventually
from kit.faults.proxy import FaultProxy, anything, matching
from kit.kinds.widgets import CHILD_TYPES, WIDGETS, Widget, a_widget, widget_operator
from quintet.apis.meta import Object, ObjectKey
from quintet.kube.client import Client
from quintet.local.cluster import Cluster
from quintet.runtime.watch import WatchTimeouts

IMPATIENT = WatchTimeouts(first_retry=0.1, last_retry=1.0)


async def wait_until_reconciled(client: Client, namespace: str, name: str) -> None:
    async def probe() -> None:
        widget = await client.get(WIDGETS, ObjectKey(namespace, name), Widget)
        assert widget.status.observed_generation == widget.metadata.generation, widget.status
        assert widget.status.message == "reconciled", widget.status

    await eventually(probe, within=120.0)


async def create_widget(client: Client, namespace: str, name: str) -> None:
    await client.create(WIDGETS, a_widget(name), Object, namespace=namespace)


async def restart_api_server(cluster: Cluster) -> None:
    await asyncio.to_thread(cluster.process("kube-apiserver").restart)


async def compact_etcd(cluster: Cluster) -> None:
    """Compact etcd's history up to the current revision."""
    async with aiohttp.ClientSession(cluster.etcd_url) as etcd:
        key = base64.b64encode(b"nothing").decode()
        async with etcd.post("/v3/kv/range", json={"key": key}) as answer:
            revision = (await answer.json())["header"]["revision"]
        async with etcd.post("/v3/kv/compaction", json={"revision": revision}) as answer:
            assert answer.status == 200, await answer.text()


async def test_operator_survives_killed_api_server_without_duplicate_children(
    widgets: Client, cluster, namespace
):
    async with widget_operator(cluster.kubeconfig, namespace=namespace, timeouts=IMPATIENT):
        for number in range(20):
            await create_widget(widgets, namespace, f"w{number}")
        cluster.process("kube-apiserver").kill()
        await restart_api_server(cluster)
        for number in range(20):
            await wait_until_reconciled(widgets, namespace, f"w{number}")
        await create_widget(widgets, namespace, "after")
        await wait_until_reconciled(widgets, namespace, "after")
        for resource in CHILD_TYPES:
            pages = [page async for page in widgets.pages(resource, namespace=namespace, labels="app")]
            assert sum(len(page.items) for page in pages) == 21, resource.kind


async def test_operator_lists_again_after_history_was_compacted_during_outage(
    widgets: Client, cluster, namespace, tmp_path
):
    async with FaultProxy(cluster.kubeconfig) as proxy:
        kubeconfig = proxy.write_kubeconfig(tmp_path)
        async with widget_operator(kubeconfig, namespace=namespace, timeouts=IMPATIENT):
            await create_widget(widgets, namespace, "stays")
            await create_widget(widgets, namespace, "goes")
            await wait_until_reconciled(widgets, namespace, "stays")
            await wait_until_reconciled(widgets, namespace, "goes")
            async with proxy.outage():
                await widgets.delete(WIDGETS, ObjectKey(namespace, "goes"))
                await create_widget(widgets, namespace, "comes")
                await compact_etcd(cluster)
                # A restarted API server has an empty watch cache.
                cluster.process("kube-apiserver").kill()
                await restart_api_server(cluster)
                mark = proxy.trace.mark()
            await wait_until_reconciled(widgets, namespace, "comes")
            lists = [
                e
                for e in proxy.trace.requests(matching("watch", "widgets"), since=mark)
                if "sendInitialEvents" in e.request.query
            ]
            assert lists, f"history was still there: nothing was tested\n{proxy.trace}"
            await proxy.quiet(1.0)
            touched = [e for e in proxy.trace.writes(since=mark) if e.request.name == "stays"]
            assert touched == [], f"\n{proxy.trace}"


async def test_operator_survives_total_api_outage_with_few_requests(
    widgets: Client, cluster, namespace, tmp_path
):
    async with FaultProxy(cluster.kubeconfig) as proxy:
        kubeconfig = proxy.write_kubeconfig(tmp_path)
        async with widget_operator(kubeconfig, namespace=namespace):
            await create_widget(widgets, namespace, "before")
            await wait_until_reconciled(widgets, namespace, "before")
            async with proxy.outage():
                await create_widget(widgets, namespace, "during")
                mark = proxy.trace.mark()
                await asyncio.sleep(10.0)  # the length of the outage is under test
                tries = len(proxy.trace.requests(since=mark))
            assert tries <= 20, f"{tries} requests in an outage of 10 s\n{proxy.trace}"
            await wait_until_reconciled(widgets, namespace, "during")


@pytest.mark.parametrize(
    "seconds",
    [5.0, pytest.param(60.0, marks=[pytest.mark.exhaustive, pytest.mark.slow])],
    ids="{:g} s".format,
)
async def test_idle_operator_sends_only_lease_renewals(
    seconds, widgets: Client, cluster, namespace, tmp_path
):
    async with (
        FaultProxy(cluster.kubeconfig) as proxy,
        widget_operator(
            proxy.write_kubeconfig(tmp_path), namespace=namespace, lease=ObjectKey(namespace, "lease")
        ),
    ):
        for number in range(5):
            await create_widget(widgets, namespace, f"w{number}")
        for number in range(5):
            await wait_until_reconciled(widgets, namespace, f"w{number}")
        await proxy.quiet(1.0)
        mark = proxy.trace.mark()
        await proxy.quiet(seconds, lambda request: request.resource != "leases", within=seconds + 60.0)
        others = [e for e in proxy.trace.requests(anything, since=mark) if e.request.resource != "leases"]
        assert others == [], f"\n{proxy.trace}"
        assert proxy.trace.requests(matching("update", "leases"), since=mark), "the lease was not renewed"


async def test_reconciler_crash_on_one_object_does_not_affect_others(widgets: Client, cluster, namespace):
    async with widget_operator(cluster.kubeconfig, namespace=namespace):
        await widgets.create(WIDGETS, a_widget("bad", mode="crash"), Object, namespace=namespace)
        await create_widget(widgets, namespace, "good")
        await wait_until_reconciled(widgets, namespace, "good")
        await widgets.patch(WIDGETS, ObjectKey(namespace, "bad"), {"spec": {"mode": ""}}, Object)
        await wait_until_reconciled(widgets, namespace, "bad")


async def test_stale_cache_does_not_cause_second_child(widgets: Client, cluster, namespace, tmp_path):
    """The watch event of the operator's own create is held back while the widget changes again."""
    async with FaultProxy(cluster.kubeconfig) as proxy:
        kubeconfig = proxy.write_kubeconfig(tmp_path)
        async with widget_operator(kubeconfig, namespace=namespace) as controller:
            hold = proxy.hold("configmaps", name="w")
            await create_widget(widgets, namespace, "w")
            await hold.caught()
            await wait_until_reconciled(widgets, namespace, "w")
            mark, runs = proxy.trace.mark(), len(controller.runs)
            await widgets.patch(WIDGETS, ObjectKey(namespace, "w"), {"spec": {"text": "new"}}, Object)
            await proxy.quiet(1.0)
            assert len(controller.runs) == runs, "decided on a cache that had not seen our own write"
            assert proxy.trace.writes(since=mark) == []
            hold.release()
            await wait_until_reconciled(widgets, namespace, "w")
            made = proxy.trace.requests(matching("create", "configmaps"))
            assert len(made) == 1, f"\n{proxy.trace}"
