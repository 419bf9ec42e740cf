"""A process that watches several namespaces on a real API server."""

import secrets

import pytest

from kit.cluster.control_plane import fresh_namespace
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy
from kit.kinds.widgets import CONFIG_MAPS, WIDGETS, Widget, a_widget, widget_operator
from quintet.apis.meta import Object, ObjectKey
from quintet.kube.client import Client


@pytest.fixture
async def two_others(api, namespace):
    async with (
        fresh_namespace(api, f"{namespace}-b") as second,
        fresh_namespace(api, f"{namespace}-c") as third,
    ):
        yield second, third


async def wait_until_reconciled(client: Client, key: ObjectKey) -> None:
    async def probe() -> None:
        widget = await client.get(WIDGETS, key, Widget)
        assert widget.status.observed_generation == widget.metadata.generation, widget.status
        assert widget.status.message == "reconciled", widget.status

    await eventually(probe)


async def test_process_reconciles_the_chosen_namespaces_only(
    widgets: Client, proxy: FaultProxy, namespace, two_others, tmp_path
):
    second, third = two_others
    before = ObjectKey(namespace, "before")
    await widgets.create(WIDGETS, a_widget("before"), Object, namespace=namespace)
    chosen = [namespace, second]
    async with widget_operator(proxy.write_kubeconfig(tmp_path), namespaces=chosen) as controller:
        await wait_until_reconciled(widgets, before)
        name = f"w{secrets.token_hex(2)}"
        for where in (third, second):
            await widgets.create(WIDGETS, a_widget(name), Object, namespace=where)
        await wait_until_reconciled(widgets, ObjectKey(second, name))
        # A child that is deleted in one namespace comes back while the others are quiet.
        child = ObjectKey(second, name)
        uid = (await widgets.get(CONFIG_MAPS, child, Object)).metadata.uid
        await widgets.delete(CONFIG_MAPS, child)

        async def replaced() -> None:
            assert (await widgets.get(CONFIG_MAPS, child, Object)).metadata.uid != uid

        await eventually(replaced)
        assert {key.namespace for key in controller.runs} == {namespace, second}
    paths = {exchange.request.path for exchange in proxy.trace.requests() if exchange.request.verb == "watch"}
    assert all(f"/namespaces/{namespace}/" in path or f"/namespaces/{second}/" in path for path in paths), (
        paths
    )
