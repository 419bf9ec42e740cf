"""The status of Subscriptions and their NATS consumers."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from kit.cluster.objects import wait_until_gone
from kit.eventually import eventually
from kit.kinds.subscriptions import (
    BACKEND,
    STREAM,
    TYPE,
    Scene,
    a_backend,
    an_operated_scene,
    create_service,
    subscription_operator,
)
from kit.nats.server import a_nats_server
from quintet.apis.eventingbackend import EVENTINGBACKENDS
from quintet.apis.meta import Object, ObjectKey, Resource
from quintet.apis.subscription import SUBSCRIPTIONS, EventType, Subscription
from quintet.clock import SystemClock
from quintet.controllers.subscription import controller, writer
from quintet.eventing.decide.choice import DEFAULT
from quintet.eventing.decide.consumers import owner_uid
from quintet.eventing.decide.naming import consumer_name
from quintet.kube.client import Client
from quintet.local.cluster import Cluster
from quintet.nats.client import NatsClient
from quintet.nats.errors import ConsumerNotFound
from quintet.nats.jetstream import ConsumerConfig, JetStream, StreamConfig
from quintet.nats.options import NatsOptions
from quintet.runtime.events import EVENTS

NAMESPACES = Resource("", "v1", "Namespace", "namespaces", False)


@pytest.fixture
async def scene(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    monkeypatch.setattr(controller, "POLL_SECONDS", 0.5)
    monkeypatch.setattr(controller, "FIRST_POLL_SECONDS", 0.5)
    async with an_operated_scene(client, namespace, cluster.kubeconfig, tmp_path) as made:
        yield made


async def list_consumers(scene: Scene) -> list[str]:
    return [each.name for each in await scene.jetstream.consumers(STREAM)]


async def test_subscription_gets_consumer_and_reports_it(scene: Scene):
    await scene.subscribe(types=["order created.v1", TYPE])
    found = await scene.wait_for_reason("orders", "DispatcherNotPulling")
    name = consumer_name(found.metadata)
    assert await list_consumers(scene) == [name]
    assert found.status.ready is False
    assert found.status.types == (EventType("order created.v1", "ordercreated.v1"), EventType(TYPE, TYPE))
    assert (found.status.backend.name, found.status.backend.type) == (BACKEND, "nats")
    assert {each.consumer_name for each in found.status.backend.types} == {name}
    info = await scene.jetstream.consumer_info(STREAM, name)
    assert info.config is not None
    assert info.config.filter_subjects == ("kyma.commerce.ordercreated.v1", f"kyma.commerce.{TYPE}")
    assert info.config.max_ack_pending == 10
    assert info.config.deliver_policy == "new"


async def test_all_validation_errors_are_reported_and_types_are_shown(scene: Scene):
    await scene.subscribe(source="", sink="http://orders.elsewhere.svc.cluster.local")
    found = await scene.wait_for_reason("orders", "InvalidSpec")
    message = found.status.conditions[0].message
    assert "spec.source" in message
    assert "must have the same namespace as the subscriber" in message
    assert found.status.types == (EventType(TYPE, TYPE),)
    assert await list_consumers(scene) == []


async def test_later_validation_error_keeps_consumer(scene: Scene):
    await scene.subscribe()
    await scene.wait_for_reason("orders", "DispatcherNotPulling")
    await scene.change("orders", sink="http://wrong")
    await scene.wait_for_reason("orders", "InvalidSpec")
    assert len(await list_consumers(scene)) == 1


async def test_backend_is_chosen_by_name_label_or_as_only_one(scene: Scene, client: Client):
    await scene.subscribe("named", backend="second")
    await scene.wait_for_reason("named", "BackendNotFound")
    await a_backend(client, scene.namespace, "nats://127.0.0.1:1", "second")
    await scene.wait_for_reason("named", "BackendNotReady")
    await scene.subscribe("unclear")
    found = await scene.wait_for_reason("unclear", "BackendUnclear")
    assert "main, second" in found.status.conditions[0].message
    labels = {"metadata": {"labels": dict([DEFAULT])}}
    await client.patch(EVENTINGBACKENDS, scene.key(BACKEND), labels, Object)
    found = await scene.wait_for_reason("unclear", "DispatcherNotPulling")
    assert found.status.backend.name == BACKEND


async def test_eventmesh_backend_reports_delivery_by_eventmesh(scene: Scene, client: Client):
    await a_backend(client, scene.namespace, "", "mesh", "beb")
    await scene.subscribe(backend="mesh")
    await scene.wait_for_reason("orders", "DeliveryByEventMesh")
    await client.delete(SUBSCRIPTIONS, scene.key("orders"))
    await wait_until_gone(client, SUBSCRIPTIONS, scene.key("orders"))


async def test_missing_sink_service_is_reported_until_it_exists(scene: Scene, client: Client):
    await scene.subscribe(sink=f"http://late.{scene.namespace}.svc.cluster.local")
    found = await scene.wait_for_reason("orders", "SinkNotFound")
    assert "'late'" in found.status.conditions[0].message
    await create_service(client, scene.namespace, "late")
    await scene.wait_for_reason("orders", "DispatcherNotPulling")


async def test_external_name_service_is_rejected_as_sink(scene: Scene, client: Client):
    await create_service(client, scene.namespace, "out", type="ExternalName", externalName="example.com")
    await scene.subscribe(sink=f"http://out.{scene.namespace}.svc.cluster.local")
    await scene.wait_for_reason("orders", "SinkLeavesCluster")
    # Dispatchers rely on this reason, whatever else is wrong.
    await scene.server.kill()
    await eventually(lambda: _assert_disconnected(scene))
    await scene.change("orders", config={"maxInFlightMessages": 5})
    await scene.wait_for_reason("orders", "SinkLeavesCluster")


def _assert_disconnected(scene: Scene) -> None:
    assert not scene.nats.connected


async def test_deleted_consumer_is_recreated(scene: Scene):
    await scene.subscribe()
    await scene.wait_for_reason("orders", "DispatcherNotPulling")
    name = (await list_consumers(scene))[0]
    await scene.jetstream.delete_consumer(STREAM, name)

    async def assert_restored():
        assert await list_consumers(scene) == [name]

    await eventually(assert_restored)


async def test_changed_consumer_is_restored(scene: Scene):
    await scene.subscribe()
    await scene.wait_for_reason("orders", "DispatcherNotPulling")
    name = (await list_consumers(scene))[0]
    info = await scene.jetstream.consumer_info(STREAM, name)
    assert info.config is not None
    wrong = ConsumerConfig(
        durable_name=name, deliver_policy="new", max_ack_pending=1, filter_subjects=("kyma.other.x.y",)
    )
    await scene.jetstream.create_or_update_consumer(STREAM, wrong)

    async def assert_restored():
        now = await scene.jetstream.consumer_info(STREAM, name)
        assert now.config == info.config

    await eventually(assert_restored)


async def test_deletion_waits_for_nats_server_and_reports_it(scene: Scene, client: Client):
    await scene.subscribe()
    found = await scene.wait_for_reason("orders", "DispatcherNotPulling")
    await scene.server.kill()
    await client.delete(SUBSCRIPTIONS, found.key)

    async def assert_reported():
        now = await client.get(SUBSCRIPTIONS, found.key, type(found))
        assert [each.reason for each in now.status.conditions] == ["ConsumerNotRemoved"], now.status
        assert "has no connection to its server" in now.status.conditions[0].message

    await eventually(assert_reported)
    await scene.server.start()
    await eventually(lambda: _reconnect(scene), within=60)
    await wait_until_gone(client, SUBSCRIPTIONS, found.key)
    await eventually(lambda: _assert_no_consumers(scene))


async def _reconnect(scene: Scene) -> None:
    await scene.sessions.open(scene.key(BACKEND), NatsOptions(scene.server.url), "1")
    assert scene.nats.connected


async def _assert_no_consumers(scene: Scene) -> None:
    assert await list_consumers(scene) == []


async def test_deletion_ends_without_server_and_consumer_is_removed_later(
    scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(controller, "MOST_DELETION_SECONDS", 0.0)
    monkeypatch.setattr(writer, "SWEEP_SECONDS", 0.0)
    await scene.subscribe("stays")
    await scene.subscribe()
    found = await scene.wait_for_reason("orders", "DispatcherNotPulling")
    stays = await scene.wait_for_reason("stays", "DispatcherNotPulling")
    await scene.sessions.keep_only(scene.key(BACKEND), ())
    await client.delete(SUBSCRIPTIONS, found.key)
    await wait_until_gone(client, SUBSCRIPTIONS, found.key)
    assert len(await list_consumers(scene)) == 2
    await _reconnect(scene)

    async def assert_removed():
        assert await list_consumers(scene) == [consumer_name(stays.metadata)]

    await eventually(assert_removed)


async def test_foreign_consumers_on_stream_are_kept(
    scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(writer, "SWEEP_SECONDS", 0.0)
    foreign = ConsumerConfig(durable_name="somebody-elses", filter_subjects=("kyma.x.y.z",))
    await scene.jetstream.create_or_update_consumer(STREAM, foreign)
    await scene.subscribe()
    found = await scene.wait_for_reason("orders", "DispatcherNotPulling")
    await client.delete(SUBSCRIPTIONS, found.key)
    await wait_until_gone(client, SUBSCRIPTIONS, found.key)
    assert await list_consumers(scene) == ["somebody-elses"]


async def test_subscription_of_deleted_backend_can_be_deleted(scene: Scene, client: Client):
    await scene.subscribe()
    found = await scene.wait_for_reason("orders", "DispatcherNotPulling")
    await client.delete(EVENTINGBACKENDS, scene.key(BACKEND))
    await scene.wait_for_reason("orders", "BackendNotFound")
    await client.delete(SUBSCRIPTIONS, found.key)
    await wait_until_gone(client, SUBSCRIPTIONS, found.key)


async def test_namespace_can_be_deleted_without_nats_server(
    scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(controller, "MOST_DELETION_SECONDS_WITHOUT_BACKEND", 0.0)
    await scene.subscribe()
    found = await scene.wait_for_reason("orders", "DispatcherNotPulling")
    # As the EventingBackend controller does while Subscriptions use the backend.
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    await client.patch(EVENTINGBACKENDS, scene.key(BACKEND), held, Object)
    await scene.sessions.keep_only(scene.key(BACKEND), ())
    await client.delete(NAMESPACES, ObjectKey("", scene.namespace))
    # The namespace controller starts seconds later and also has other tests' namespaces to clear.
    await wait_until_gone(client, SUBSCRIPTIONS, found.key, within=120)
    free = {"metadata": {"finalizers": None}}
    await client.patch(EVENTINGBACKENDS, scene.key(BACKEND), free, Object)


async def test_subscription_moved_to_other_backend_leaves_no_consumer(scene: Scene, client: Client):
    await scene.subscribe()
    found = await scene.wait_for_reason("orders", "DispatcherNotPulling")
    second = scene.key("second")
    await a_backend(client, scene.namespace, "nats://127.0.0.1:1", "second")
    await scene.change("orders", backend="second")
    waits = await scene.wait_for_reason("orders", "BackendNotReady")
    assert waits.status.backend.name == BACKEND, "until the new one has a consumer, the old one delivers"
    assert len(await list_consumers(scene)) == 1

    async with (
        a_nats_server(scene.server.store.parent / "second") as server,
        NatsClient(NatsOptions(server.url), SystemClock()) as other,
    ):
        await JetStream(other).create_stream(StreamConfig(name=STREAM, subjects=("kyma.>",)))
        await scene.publish(1, 2)
        await client.delete(EVENTINGBACKENDS, second)
        await a_backend(client, scene.namespace, server.url, "second")
        await scene.sessions.open(second, NatsOptions(server.url), "1")

        async def assert_moved():
            now = await client.get(SUBSCRIPTIONS, found.key, Subscription)
            assert now.status.backend.name == "second", now.status
            assert [each.name for each in await JetStream(other).consumers(STREAM)] == [
                consumer_name(found.metadata)
            ]
            assert await list_consumers(scene) == []

        await eventually(assert_moved, within=60)

    async def assert_reported():
        notes = [note for reason, note in await list_events(client, scene) if reason == "EventsLeftBehind"]
        assert notes == [
            "2 events that wait in EventingBackend 'main' are not delivered: "
            "this Subscription now uses 'second'"
        ]

    await eventually(assert_reported)


async def list_events(client: Client, scene: Scene) -> list[tuple[str, str]]:
    """Return reason and note of every Event in the namespace."""
    return [
        (event["reason"], event["note"])
        async for page in client.pages(EVENTS, namespace=scene.namespace)
        for event in map(msgspec.json.decode, page.items)
    ]


async def test_backends_that_share_stream_share_consumer_when_subscription_moves(
    scene: Scene, client: Client
):
    await scene.subscribe()
    found = await scene.wait_for_reason("orders", "DispatcherNotPulling")
    name, second = consumer_name(found.metadata), scene.key("second")
    before = await scene.jetstream.consumer_info(STREAM, name)
    await a_backend(client, scene.namespace, scene.server.url, "second")
    await scene.sessions.open(second, NatsOptions(scene.server.url), "1")
    await scene.change("orders", backend="second")

    async def assert_moved():
        now = await client.get(SUBSCRIPTIONS, found.key, Subscription)
        assert now.status.backend.name == "second", now.status
        info = await scene.jetstream.consumer_info(STREAM, name)
        assert owner_uid(info) == await _uid(client, second)
        return info

    assert (await eventually(assert_moved)).created == before.created


async def _uid(client: Client, key: ObjectKey) -> str:
    return (await client.get(EVENTINGBACKENDS, key, Object)).metadata.uid


async def test_operator_restart_with_unchanged_subscription_writes_nothing(
    scene: Scene, client: Client, cluster: Cluster
):
    await scene.subscribe()
    before = await scene.wait_for_reason("orders", "DispatcherNotPulling")
    made = await scene.jetstream.consumer_info(STREAM, consumer_name(before.metadata))
    async with subscription_operator(cluster.kubeconfig, scene):
        await scene.change("orders", config={"maxInFlightMessages": 5})
        after = await scene.wait_for_reason("orders", "DispatcherNotPulling")
    again = await scene.jetstream.consumer_info(STREAM, consumer_name(before.metadata))
    assert made.created == again.created
    assert after.metadata.finalizers == before.metadata.finalizers


async def test_subscription_without_backend_never_had_consumer(scene: Scene, client: Client):
    await scene.subscribe(backend="none")
    found = await scene.wait_for_reason("orders", "BackendNotFound")
    await client.delete(SUBSCRIPTIONS, found.key)
    await wait_until_gone(client, SUBSCRIPTIONS, found.key)
    with pytest.raises(ConsumerNotFound):
        await scene.jetstream.consumer_info(STREAM, consumer_name(found.metadata))
