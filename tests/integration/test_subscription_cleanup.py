"""Unneeded consumers are removed, and no others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from kit.cluster.objects import wait_until_gone
from kit.eventually import eventually
from kit.faults.proxy import Answer, FaultProxy, matching
from kit.kinds.subscriptions import (
    BACKEND,
    RETRY_STREAM,
    STREAM,
    Scene,
    a_backend,
    a_scene,
    install,
    subscription_operator,
)
from kit.nats.server import a_nats_server
from quintet.apis.eventingbackend import EVENTINGBACKENDS, NATS, EventingBackend, effective
from quintet.apis.meta import Object
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription
from quintet.clock import SystemClock
from quintet.controllers.subscription import controller, writer
from quintet.eventing.decide.consumers import desired_consumer
from quintet.eventing.decide.naming import consumer_name, retry_subject
from quintet.kube.client import Client
from quintet.local.cluster import Cluster
from quintet.nats.client import NatsClient
from quintet.nats.jetstream import JetStream, StreamConfig
from quintet.nats.options import NatsOptions
from quintet.runtime.events import EVENTS


@pytest.fixture
async def scene(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    """A scene without an operator: each test starts its own."""
    await install(client)
    monkeypatch.setattr(controller, "POLL_SECONDS", 0.5)
    monkeypatch.setattr(controller, "FIRST_POLL_SECONDS", 0.5)
    monkeypatch.setattr(writer, "SWEEP_SECONDS", 0.0)
    async with (
        a_nats_server(tmp_path / "nats") as server,
        a_scene(client, namespace, server, cluster.kubeconfig) as made,
    ):
        yield made


async def list_consumers(scene: Scene) -> list[str]:
    return [each.name for each in await scene.jetstream.consumers(STREAM)]


async def test_consumer_of_subscription_missing_from_cache_is_kept(
    scene: Scene, client: Client, cluster: Cluster, tmp_path: Path
):
    backend = await client.get(EVENTINGBACKENDS, scene.key(BACKEND), EventingBackend)
    config = effective(NATS, {"url": scene.server.url})
    async with FaultProxy(cluster.kubeconfig) as proxy:
        hold = proxy.hold("subscriptions", name="unseen")
        async with subscription_operator(proxy.write_kubeconfig(tmp_path), scene):
            unseen = await scene.subscribe("unseen")
            # As the previous leader did.
            await scene.jetstream.create_or_update_consumer(STREAM, desired_consumer(unseen, backend, config))
            await hold.caught()
            # An orphaned consumer is removed in the same rounds, which shows that they took place.
            gone = await scene.subscribe("gone", backend="none")
            await scene.jetstream.create_or_update_consumer(STREAM, desired_consumer(gone, backend, config))
            await client.delete(SUBSCRIPTIONS, gone.key)
            await scene.subscribe("seen")

            async def assert_removed():
                found = await list_consumers(scene)
                assert consumer_name(gone.metadata) not in found, f"{found}\n{proxy.trace}"

            await eventually(assert_removed, within=60)
            assert consumer_name(unseen.metadata) in await list_consumers(scene)
            hold.release()
            await scene.wait_for_reason("unseen", "DispatcherNotPulling")


@asynccontextmanager
async def a_second_backend(scene: Scene) -> AsyncIterator[JetStream]:
    """Create a second backend with its own server and a connection."""
    async with (
        a_nats_server(scene.server.store.parent / "second") as server,
        NatsClient(NatsOptions(server.url), SystemClock()) as nats,
    ):
        await JetStream(nats).create_stream(StreamConfig(name=STREAM, subjects=("kyma.>",)))
        await a_backend(scene.client, scene.namespace, server.url, "second")
        await scene.sessions.open(scene.key("second"), NatsOptions(server.url), "1")
        yield JetStream(nats)


async def test_consumer_on_unreachable_old_backend_is_removed_when_it_returns(
    scene: Scene, client: Client, cluster: Cluster
):
    async with subscription_operator(cluster.kubeconfig, scene), a_second_backend(scene) as second:
        await scene.subscribe(backend=BACKEND)
        found = await scene.wait_for_reason("orders", "DispatcherNotPulling")
        name = consumer_name(found.metadata)
        await scene.publish(1, 2)
        await scene.sessions.keep_only(scene.key(BACKEND), ())
        await scene.change("orders", backend="second")

        async def assert_moved():
            now = await client.get(SUBSCRIPTIONS, found.key, Subscription)
            assert now.status.backend.name == "second", now.status

        await eventually(assert_moved, within=60)
        assert [each.name for each in await second.consumers(STREAM)] == [name]
        assert await list_consumers(scene) == [name]
        await scene.sessions.open(scene.key(BACKEND), NatsOptions(scene.server.url), "1")
        await eventually(lambda: assert_no_consumers(scene), within=60)
        assert [each.name for each in await second.consumers(STREAM)] == [name]
        await eventually(lambda: assert_event(scene, "2 events that wait in EventingBackend 'main'"))


async def assert_no_consumers(scene: Scene) -> None:
    assert await list_consumers(scene) == []


async def assert_event(scene: Scene, start: str) -> None:
    notes = [
        msgspec.json.decode(raw)["note"]
        async for page in scene.client.pages(EVENTS, namespace=scene.namespace)
        for raw in page.items
    ]
    assert [note for note in notes if note.startswith(start)], notes


async def test_unresponsive_server_does_not_block_move_to_other_backend(
    scene: Scene, client: Client, cluster: Cluster
):
    async with subscription_operator(cluster.kubeconfig, scene), a_second_backend(scene):
        await scene.subscribe(backend=BACKEND)
        await scene.wait_for_reason("orders", "DispatcherNotPulling")
        await scene.server.freeze()
        await scene.change("orders", backend="second")
        found = await scene.wait_for_reason("orders", "DispatcherNotPulling", within=120)
        assert found.status.backend.name == "second"
        scene.server.thaw()
        await eventually(lambda: reconnect(scene), within=60)
        await eventually(lambda: assert_no_consumers(scene), within=60)


async def reconnect(scene: Scene) -> None:
    await scene.sessions.open(scene.key(BACKEND), NatsOptions(scene.server.url), "1")


async def test_consumer_left_by_last_subscription_is_removed_when_server_returns(
    scene: Scene, client: Client, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    # The reconnection causes a reconciliation.
    monkeypatch.setattr(writer, "SWEEP_SECONDS", 1e6)
    monkeypatch.setattr(controller, "MOST_DELETION_SECONDS", 0.0)
    async with subscription_operator(cluster.kubeconfig, scene):
        await scene.subscribe()
        found = await scene.wait_for_reason("orders", "DispatcherNotPulling")
        await scene.sessions.keep_only(scene.key(BACKEND), ())
        await client.delete(SUBSCRIPTIONS, found.key)
        await eventually(lambda: assert_event(scene, "The consumer"), within=60)
        assert await list_consumers(scene) == [consumer_name(found.metadata)]
        await reconnect(scene)
        await eventually(lambda: assert_no_consumers(scene), within=60)


async def test_leftover_consumer_is_removed_although_api_server_fails_once(
    scene: Scene, client: Client, proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(writer, "SWEEP_SECONDS", 1e6)
    monkeypatch.setattr(controller, "MOST_DELETION_SECONDS", 0.0)
    async with subscription_operator(proxy.write_kubeconfig(tmp_path), scene):
        await scene.subscribe()
        found = await scene.wait_for_reason("orders", "DispatcherNotPulling")
        await scene.sessions.keep_only(scene.key(BACKEND), ())
        await client.delete(SUBSCRIPTIONS, found.key)
        await wait_until_gone(client, SUBSCRIPTIONS, found.key)
        refused = proxy.inject(Answer(503, "ServiceUnavailable"), when=matching("list", "subscriptions"))
        await reconnect(scene)
        await refused.hit()
        await eventually(lambda: assert_no_consumers(scene), within=60)


async def test_consumer_not_in_status_yet_is_removed_with_its_subscription(
    scene: Scene, client: Client, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Only the Subscription itself may remove it.
    monkeypatch.setattr(writer.ConsumerWriter, "is_sweep_due", lambda self, place: False)
    async with FaultProxy(cluster.kubeconfig) as proxy:
        statuses = matching("patch", "subscriptions", subresource="status")
        proxy.inject(Answer(503, "ServiceUnavailable"), when=statuses, times=None)
        async with subscription_operator(proxy.write_kubeconfig(tmp_path), scene):
            made = await scene.subscribe()
            await proxy.wait_for(statuses)
            assert await list_consumers(scene) == [consumer_name(made.metadata)]
            await client.delete(SUBSCRIPTIONS, made.key)
            await eventually(lambda: assert_no_consumers(scene), within=60)


async def test_deleted_subscription_leaves_no_event_that_waits_for_a_retry(
    scene: Scene, client: Client, cluster: Cluster
):
    async with subscription_operator(cluster.kubeconfig, scene):
        deleted, other = await scene.subscribe("deleted"), await scene.subscribe("other")
        for each in (deleted, other):
            await scene.wait_for_reason(each.metadata.name, "DispatcherNotPulling")
            await scene.publish(1, subject=retry_subject(STREAM, consumer_name(each.metadata)))
        await client.delete(SUBSCRIPTIONS, deleted.key)
        await wait_until_gone(client, SUBSCRIPTIONS, deleted.key)
    left = await scene.jetstream.stream_info(RETRY_STREAM)
    assert (left.state.messages, left.state.last_seq) == (1, 2)
    assert (await scene.jetstream.get_message(RETRY_STREAM, 2)).subject.endswith(
        consumer_name(other.metadata)
    )


HELD = {"metadata": {"finalizers": ["example.com/held"]}}
FREE = {"metadata": {"finalizers": None}}


@asynccontextmanager
async def a_terminating_backend(scene: Scene, cluster: Cluster) -> AsyncIterator[Subscription]:
    """Create a terminating backend without a connection to its running server, and a terminating Subscription."""
    backend = scene.key(BACKEND)
    async with subscription_operator(cluster.kubeconfig, scene):
        await scene.subscribe()
        found = await scene.wait_for_reason("orders", "DispatcherNotPulling")
        await scene.sessions.keep_only(backend, ())
        await scene.client.patch(EVENTINGBACKENDS, backend, HELD, Object)
        await scene.client.delete(EVENTINGBACKENDS, backend)
        await scene.client.delete(SUBSCRIPTIONS, found.key)
        try:
            yield found
        finally:
            await scene.client.patch(EVENTINGBACKENDS, backend, FREE, Object)


async def test_subscription_waits_for_deleted_backend_while_its_server_runs(
    scene: Scene, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(controller, "MOST_DELETION_SECONDS_WITHOUT_BACKEND", 1e6)
    monkeypatch.setattr(controller, "MOST_DELETION_SECONDS", 1e6)
    monkeypatch.setattr(writer.ConsumerWriter, "is_sweep_due", lambda self, place: False)
    async with a_terminating_backend(scene, cluster) as found:
        await wait_for_blocked_deletion(scene, found)
        assert await list_consumers(scene) == [consumer_name(found.metadata)]
        await reconnect(scene)
        await eventually(lambda: assert_no_consumers(scene), within=60)


async def wait_for_blocked_deletion(scene: Scene, found: Subscription) -> None:
    async def probe():
        now = await scene.client.get(SUBSCRIPTIONS, found.key, Subscription)
        assert [each.reason for each in now.status.conditions] == ["ConsumerNotRemoved"], now.status

    await eventually(probe, within=60)


async def test_consumer_left_on_server_of_deleted_backend_is_reported(
    scene: Scene, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(controller, "MOST_DELETION_SECONDS_WITHOUT_BACKEND", 0.0)
    async with a_terminating_backend(scene, cluster) as found:
        name = consumer_name(found.metadata)
        await eventually(lambda: assert_event(scene, f"The consumer {name} could not be removed"), within=60)
