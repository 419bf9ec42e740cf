"""The API server fails at any write in the life of a Subscription, and the final state is the same.

There is one consumer while the Subscription exists and none afterwards. `kit.faults.scenarios` defines which writes are
hit.
"""

import itertools
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kit.cluster.api import Api
from kit.cluster.control_plane import fresh_namespace
from kit.eventually import eventually
from kit.faults.proxy import Answer, DropReply, FaultProxy
from kit.faults.scenarios import inject_at_write, run_concurrently
from kit.kinds.subscriptions import STREAM, Scene, a_scene, install, subscription_operator
from kit.nats.server import NatsServer, a_nats_server
from quintet.apis.meta import Object
from quintet.apis.subscription import SUBSCRIPTIONS
from quintet.controllers.subscription import controller
from quintet.eventing.decide.naming import consumer_name
from quintet.kube.client import Client
from quintet.kube.errors import NotFound
from quintet.local.cluster import Cluster

FAULTS = {
    "the answer is lost": DropReply,
    "refused with a conflict": lambda: Answer(409, "Conflict"),
    "refused for overload": lambda: Answer(429, "TooManyRequests", retry_after=1),
    "refused by a server in trouble": lambda: Answer(503, "ServiceUnavailable"),
}


@pytest.fixture(autouse=True)
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "FIRST_POLL_SECONDS", 0.3)


@asynccontextmanager
async def an_environment(
    client: Client, cluster: Cluster, server: NatsServer, folder: Path
) -> AsyncIterator[tuple[Scene, FaultProxy]]:
    async with (
        Api.connect(cluster.kubeconfig) as api,
        fresh_namespace(api) as namespace,
        FaultProxy(cluster.kubeconfig) as proxy,
        a_scene(client, namespace, server, cluster.kubeconfig) as scene,
        subscription_operator(proxy.write_kubeconfig(folder), scene),
    ):
        yield scene, proxy


async def run_scenario(scene: Scene) -> None:
    """Create, change and delete a Subscription."""
    made = await scene.subscribe()
    await scene.wait_for_reason("orders", "DispatcherNotPulling")
    name = consumer_name(made.metadata)
    before = await scene.jetstream.consumer_info(STREAM, name)
    await scene.change("orders", config={"maxInFlightMessages": 3})
    await scene.wait_for_reason("orders", "DispatcherNotPulling")
    after = await scene.jetstream.consumer_info(STREAM, name)
    assert after.config is not None
    assert (after.config.max_ack_pending, after.created) == (3, before.created)
    await scene.client.delete(SUBSCRIPTIONS, made.key)

    async def assert_gone() -> None:
        try:
            seen = await scene.client.get(SUBSCRIPTIONS, made.key, Object)
        except NotFound:
            assert [each.name for each in await scene.jetstream.consumers(STREAM)] == []
            return
        raise AssertionError(f"it is still there: {seen}")

    await eventually(assert_gone, within=60)


async def run_with_fault(
    fault: str, at_write: int | None, client: Client, cluster: Cluster, folder: Path
) -> None:
    """Run the scenario with its own NATS server, because every run uses the same stream name."""
    with tempfile.TemporaryDirectory(dir=folder) as store:
        async with (
            a_nats_server(Path(store)) as server,
            an_environment(client, cluster, server, folder) as (scene, proxy),
            inject_at_write(FAULTS[fault](), proxy, at_write=at_write),
        ):
            await run_scenario(scene)


@pytest.fixture(scope="module")
async def writes(client: Client, cluster: Cluster, tmp_path_factory) -> int:
    """Return the number of writes of the scenario without faults."""
    folder = tmp_path_factory.mktemp("reference")
    await install(client)
    async with (
        a_nats_server(folder / "nats") as server,
        an_environment(client, cluster, server, folder) as (scene, proxy),
    ):
        await run_scenario(scene)
        await proxy.quiet(0.5)
        assert len(proxy.trace.writes()) >= 4, "finalizer, status, status, finalizer"
        return len(proxy.trace.writes())


async def test_subscription_reaches_same_final_state_when_first_write_of_each_type_fails(
    client: Client, cluster: Cluster, tmp_path: Path
):
    await install(client)
    await run_concurrently(FAULTS, lambda fault: run_with_fault(fault, None, client, cluster, tmp_path))


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
async def test_subscription_reaches_same_final_state_when_any_write_fails(
    writes: int, client: Client, cluster: Cluster, tmp_path: Path
):
    async def run_case(case: tuple[str, int]) -> None:
        await run_with_fault(*case, client, cluster, tmp_path)

    await run_concurrently(itertools.product(FAULTS, range(1, writes + 1)), run_case)
