"""Consumers that nobody needs any more are removed, and only those."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kit.eventually import eventually
from kit.nats import a_nats_server
from kit.proxy import FaultProxy
from kit.subscriptions import BACKEND, STREAM, Scene, a_scene, install, subscription_operator
from quintet.apis.eventingbackend import EVENTINGBACKENDS, NATS, EventingBackend, effective
from quintet.apis.subscription import SUBSCRIPTIONS
from quintet.controllers.subscription import controller, hands
from quintet.eventing.consumers import wanted
from quintet.eventing.naming import consumer_name
from quintet.kube.client import Client
from quintet.local.cluster import Cluster


@pytest.fixture
async def scene(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    """Without an operator: each test starts its own."""
    await install(client)
    monkeypatch.setattr(controller, "LOOK_AGAIN", 0.5)
    monkeypatch.setattr(controller, "LOOK_SOON", 0.5)
    monkeypatch.setattr(hands, "SWEEP_SECONDS", 0.0)
    async with (
        a_nats_server(tmp_path / "nats") as server,
        a_scene(client, namespace, server, cluster.kubeconfig) as made,
    ):
        yield made


async def consumers(scene: Scene) -> list[str]:
    return [each.name for each in await scene.jetstream.consumers(STREAM)]


async def test_the_consumer_of_one_that_the_cache_has_not_seen_yet_stays(
    scene: Scene, client: Client, cluster: Cluster, tmp_path: Path
):
    backend = await client.get(EVENTINGBACKENDS, scene.key(BACKEND), EventingBackend)
    config = effective(NATS, {"url": scene.server.url})
    async with FaultProxy(cluster.kubeconfig) as proxy:
        hold = proxy.hold("subscriptions", name="unseen")
        async with subscription_operator(proxy.write_kubeconfig(tmp_path), scene):
            unseen = await scene.subscribe("unseen")
            # As the leader before us did.
            await scene.jetstream.create_or_update_consumer(STREAM, wanted(unseen, backend, config))
            await hold.caught()
            # A consumer of nobody is swept up in the same rounds, so these rounds have been.
            gone = await scene.subscribe("gone", backend="none")
            await scene.jetstream.create_or_update_consumer(STREAM, wanted(gone, backend, config))
            await client.delete(SUBSCRIPTIONS, gone.key)
            await scene.subscribe("seen")

            async def swept():
                found = await consumers(scene)
                assert consumer_name(gone.metadata) not in found, f"{found}\n{proxy.trace}"

            await eventually(swept, within=60)
            assert consumer_name(unseen.metadata) in await consumers(scene)
            hold.release()
            await scene.found("unseen", "DispatcherNotPulling")
