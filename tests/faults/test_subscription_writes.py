"""The API server fails at every single write of a Subscription's life; the end is the same each time.

A reference run numbers the writes; then each write in turn is hit in each way. There is one consumer
as long as there is a Subscription, and none afterwards.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kit.api import Api
from kit.cluster import fresh_namespace
from kit.eventually import eventually
from kit.nats import NatsServer, a_nats_server
from kit.proxy import Answer, DropReply, FaultProxy
from kit.subscriptions import STREAM, Scene, a_scene, install, subscription_operator
from quintet.apis.meta import Object
from quintet.apis.subscription import SUBSCRIPTIONS
from quintet.controllers.subscription import controller
from quintet.eventing.naming import consumer_name
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
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "LOOK_SOON", 0.3)


@asynccontextmanager
async def a_stage(
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


async def tell(scene: Scene) -> None:
    """The story: a Subscription is made, changed and deleted."""
    made = await scene.subscribe()
    await scene.found("orders", "DispatcherNotPulling")
    name = consumer_name(made.metadata)
    before = await scene.jetstream.consumer_info(STREAM, name)
    await scene.change("orders", config={"maxInFlightMessages": 3})
    await scene.found("orders", "DispatcherNotPulling")
    after = await scene.jetstream.consumer_info(STREAM, name)
    assert after.config is not None
    assert (after.config.max_ack_pending, after.created) == (3, before.created)
    await scene.client.delete(SUBSCRIPTIONS, made.key)

    async def gone() -> None:
        try:
            seen = await scene.client.get(SUBSCRIPTIONS, made.key, Object)
        except NotFound:
            assert [each.name for each in await scene.jetstream.consumers(STREAM)] == []
            return
        raise AssertionError(f"it is still there: {seen}")

    await eventually(gone, within=60)


@pytest.mark.timeout(1800)
async def test_the_end_is_the_same_whatever_happens_to_any_write(
    client: Client, cluster: Cluster, tmp_path: Path
):
    await install(client)
    async with a_nats_server(tmp_path / "nats") as server:
        async with a_stage(client, cluster, server, tmp_path) as (scene, proxy):
            await tell(scene)
            await proxy.quiet(0.5)
            writes = len(proxy.trace.writes())
        assert writes >= 4, "finalizer, status, status, finalizer"
        for fault, make in FAULTS.items():
            for number in range(1, writes + 1):
                async with a_stage(client, cluster, server, tmp_path) as (scene, proxy):
                    injected = proxy.inject(make(), at_write=number)
                    await tell(scene)
                    seen = f"write {number}, {fault}\n{proxy.trace}"
                    assert injected.hits or len(proxy.trace.writes()) < number, seen
