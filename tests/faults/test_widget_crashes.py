"""The operator is killed or a response is lost at any write in the life of a Widget.

Whichever write is hit, the final state is that without faults: the same objects, no duplicates, nothing left over and no
further writes. `kit.faults.scenarios` defines which writes are hit.
"""

from pathlib import Path

import pytest

from kit.background import run_in_background
from kit.cluster.api import Api
from kit.cluster.control_plane import fresh_namespace
from kit.eventually import eventually
from kit.faults.operators import an_operator
from kit.faults.proxy import FaultProxy
from kit.faults.scenarios import FAULTS, PATIENCE, inject_at_write, keep_running, run_concurrently
from kit.kinds.widgets import CHILD_TYPES, WIDGETS, Widget, a_widget
from quintet.apis.meta import Object, ObjectKey
from quintet.kube.client import Client
from quintet.kube.errors import NotFound


async def wait_until_settled(client: Client, key: ObjectKey, text: str) -> None:
    async def probe() -> None:
        widget = await client.get(WIDGETS, key, Widget)
        assert widget.status.observed_generation == widget.metadata.generation, widget.status
        assert widget.status.message == "reconciled", widget.status
        for resource in CHILD_TYPES:
            child = await client.get(resource, key, Object)
            assert [owner.uid for owner in child.metadata.owner_references] == [widget.metadata.uid]
        config = await client.get(CHILD_TYPES[0], key, dict)
        assert config["data"] == {"text": text}

    await eventually(probe, within=PATIENCE)


async def wait_until_gone(client: Client, key: ObjectKey) -> None:
    async def probe() -> None:
        for resource in (*CHILD_TYPES, WIDGETS):
            try:
                await client.get(resource, key, Object)
            except NotFound:
                continue
            raise AssertionError(f"{resource.kind} {key} is still there")

    await eventually(probe, within=PATIENCE)


async def run_scenario(client: Client, namespace: str) -> None:
    """Create, change and delete a Widget."""
    key = ObjectKey(namespace, "w")
    await client.create(WIDGETS, a_widget("w", text="one", mode="finalized"), Object, namespace=namespace)
    await wait_until_settled(client, key, "one")
    await client.patch(WIDGETS, key, {"spec": {"text": "two"}}, Object)
    await wait_until_settled(client, key, "two")
    await client.delete(WIDGETS, key)
    await wait_until_gone(client, key)


@pytest.fixture(scope="module")
async def writes(widgets, cluster, tmp_path_factory) -> int:
    """Return the number of writes of the scenario without faults."""
    async with (
        Api.connect(cluster.kubeconfig) as api,
        fresh_namespace(api) as namespace,
        FaultProxy(cluster.kubeconfig) as proxy,
        an_operator(proxy.write_kubeconfig(tmp_path_factory.mktemp("reference")), "--namespace", namespace),
    ):
        await run_scenario(widgets, namespace)
        await proxy.quiet(0.5)
        creates = [
            str(exchange.request) for exchange in proxy.trace.writes() if exchange.request.verb == "create"
        ]
        assert len(creates) == 3, f"\n{proxy.trace}"
        return len(proxy.trace.writes())


async def run_with_fault(
    fault: str, at_write: int | None, client: Client, api: Api, kubeconfig: Path, scratch: Path
) -> None:
    async with (
        fresh_namespace(api) as namespace,
        FaultProxy(kubeconfig) as proxy,
        an_operator(proxy.write_kubeconfig(scratch), "--namespace", namespace) as operator,
        run_in_background(keep_running(operator)),
        inject_at_write(fault, proxy, operator, at_write=at_write),
    ):
        await run_scenario(client, namespace)
        await proxy.quiet(0.3)
        made = [e for e in proxy.trace.writes() if e.request.verb == "create" and e.status == 201]
        assert len(made) == 3, "an object was created twice"


@pytest.mark.timeout(1800)
async def test_widget_reaches_same_final_state_when_first_write_of_each_type_fails(
    widgets, cluster, api, tmp_path
):
    async def run_case(fault: str) -> None:
        await run_with_fault(fault, None, widgets, api, cluster.kubeconfig, tmp_path)

    await run_concurrently(FAULTS, run_case)


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", FAULTS, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.timeout(1800)
async def test_widget_reaches_same_final_state_when_any_write_fails(
    fault, writes, widgets, cluster, api, tmp_path
):
    async def run_case(number: int) -> None:
        await run_with_fault(fault, number, widgets, api, cluster.kubeconfig, tmp_path)

    await run_concurrently(range(1, writes + 1), run_case)
