"""Events from the stream to the sinks: a real NATS server, real HTTP, Subscriptions on a real API server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from kit.cluster.kubeconfig import Access
from kit.eventually import eventually
from kit.faults.proxy import Answer, FaultProxy, matching
from kit.http.sink import Sink, a_sink
from kit.kinds.subscriptions import (
    DEAD_LETTERS,
    DEAD_STREAM,
    IMPATIENT,
    RETRY_STREAM,
    SERVICES,
    STREAM,
    SUBJECT,
    TYPE,
    Scene,
    a_dispatcher,
    an_operated_scene,
    create_service,
)
from kit.nats.dispatchers import DispatcherProcess
from quintet.apis.meta import ObjectKey
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription
from quintet.controllers.subscription import controller
from quintet.eventing.decide import consumers
from quintet.eventing.decide.naming import consumer_name
from quintet.eventing.dispatcher import dead_letters, delivery
from quintet.eventing.dispatcher.decide.retry_policy import RetryPolicy
from quintet.kube.client import Client
from quintet.local.cluster import Cluster
from quintet.nats.config import SECOND
from quintet.nats.jetstream import ConsumerConfig, Delivery
from quintet.runtime.events import EVENTS


@pytest.fixture
async def scene(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    # No event reports that a dispatcher pulls, so the server is polled.
    monkeypatch.setattr(controller, "POLL_SECONDS", 0.5)
    monkeypatch.setattr(controller, "FIRST_POLL_SECONDS", 0.2)
    async with an_operated_scene(client, namespace, cluster.kubeconfig, tmp_path) as made:
        yield made


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    async with a_sink() as listening:
        yield listening


def sink_addresses(scene: Scene, sink: Sink) -> dict[str, tuple[str, int]]:
    return {scene.host: ("127.0.0.1", sink.port)}


async def wait_until_acknowledged(scene: Scene, subscription: Subscription) -> None:
    async def probe() -> None:
        info = await scene.jetstream.consumer_info(STREAM, consumer_name(subscription.metadata))
        assert (info.num_pending, info.num_ack_pending) == (0, 0), info
        # A consumer may lag behind its stream.
        for stream in (STREAM, RETRY_STREAM):
            kept = (await scene.jetstream.stream_info(stream)).state.messages
            assert kept == 0, f"{kept} events are still unacknowledged in {stream}"

    # An event sent to a restarting dispatcher is redelivered after half a minute.
    await eventually(probe, within=120)


async def test_event_arrives_as_binary_cloudevent_with_tracing_headers(scene: Scene, sink: Sink):
    async with a_dispatcher(scene, sink_addresses(scene, sink)):
        subscription = await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(1, traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", b3="0")

        await eventually(lambda: _assert_one(sink))
        got = sink.received[0]
        assert got.path == "/events"
        assert got.body == b'{"n":1}'
        want = {
            "host": f"{scene.host}:8080",
            "ce-specversion": "1.0",
            "ce-id": "1",
            "ce-source": "commerce",
            "ce-type": TYPE,
            "content-type": "application/json",
            "content-length": "7",
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "b3": "0",
        }
        assert got.headers == want
        await wait_until_acknowledged(scene, subscription)
    assert sink.ids == ["1"]


def _assert_one(sink: Sink) -> None:
    assert len(sink.received) == 1, sink.ids


async def test_event_is_redelivered_until_sink_accepts_it(scene: Scene, sink: Sink):
    sink.answer = lambda request: 204 if len(sink.received) >= 2 else 503
    async with a_dispatcher(scene, sink_addresses(scene, sink)):
        subscription = await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(1)
        await wait_until_acknowledged(scene, subscription)
    assert sink.ids == ["1", "1", "1"]


async def test_undeliverable_event_becomes_dead_letter_and_is_reported(
    scene: Scene, sink: Sink, client: Client
):
    sink.answer = lambda request: 500
    async with a_dispatcher(scene, sink_addresses(scene, sink)):
        subscription = await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(1)
        await wait_until_acknowledged(scene, subscription)
        kept = await scene.jetstream.get_message(DEAD_STREAM, 1)

        async def assert_reported() -> None:
            assert await dead_letter_events(client, scene.namespace) == [
                f"an event could not be delivered to {scene.sink} in 3 attempts (last: status 500); "
                "kept as dead letters: `quintet deadletters list orders`"
            ]

        await eventually(assert_reported)
    assert sink.ids == ["1", "1", "1"]
    assert kept.subject == f"{DEAD_LETTERS}.{consumer_name(subscription.metadata)}"
    assert kept.payload == b'{"n":1}'
    head = kept.head.decode()
    for line in (
        "ce-id: 1", f"Quintet-Subscription: {scene.namespace}/orders", f"Quintet-Subject: {SUBJECT}",
        "Quintet-Tries: 3", "Quintet-Answer: status 500",
    ):  # fmt: skip
        assert line in head, head


async def dead_letter_events(client: Client, namespace: str) -> list[str]:
    """Return the Events about dead letters."""
    return [
        event["note"]
        async for page in client.pages(EVENTS, namespace=namespace)
        for event in map(msgspec.json.decode, page.items)
        if event["reason"] == "DeliveryGivenUp"
    ]


async def test_repeated_dead_letters_are_reported_as_one_event_series(
    scene: Scene, sink: Sink, client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dead_letters, "EVENT_INTERVAL", 0.0)
    sink.answer = lambda request: 500
    async with a_dispatcher(scene, sink_addresses(scene, sink)):
        subscription = await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        for number in (1, 2):
            await scene.publish(number)
            await wait_until_acknowledged(scene, subscription)

        async def assert_reported() -> None:
            pages = client.pages(EVENTS, namespace=scene.namespace)
            events = [msgspec.json.decode(item) async for page in pages for item in page.items]
            given_up = [event for event in events if event["reason"] == "DeliveryGivenUp"]
            assert [event.get("series", {}).get("count") for event in given_up] == [2], given_up

        await eventually(assert_reported)


async def test_dispatcher_works_without_streaming_lists(
    scene: Scene, sink: Sink, proxy: FaultProxy, tmp_path: Path
):
    token = Access.read(scene.kubeconfig).token
    scene.kubeconfig = proxy.write_kubeconfig(tmp_path, token=token)
    refusal = Answer(422, "Invalid")
    proxy.inject(refusal, when=lambda request: "sendInitialEvents" in request.query, times=None)
    async with a_dispatcher(scene, sink_addresses(scene, sink)):
        subscription = await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(1)
        await wait_until_acknowledged(scene, subscription)
    assert sink.ids == ["1"]
    assert proxy.trace.requests(matching("list", "subscriptions")), f"\n{proxy.trace}"


async def test_subscription_overrides_the_delivery_policy_of_its_backend(
    scene: Scene, sink: Sink, client: Client
):
    sink.answer = lambda request: 503 if request.id == "1" else 400
    async with a_dispatcher(scene, sink_addresses(scene, sink), RetryPolicy()):
        delivery = {"attempts": 2, "backoff": {"min": "50ms"}, "permanentStatuses": [], "deadLetters": "Drop"}
        subscription = await scene.subscribe(delivery=delivery)
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(1, 2)
        await wait_until_acknowledged(scene, subscription)
        assert sorted(sink.ids) == ["1", "1", "2", "2"]
        assert (await scene.jetstream.stream_info(DEAD_STREAM)).state.messages == 0

        async def assert_reported() -> None:
            (note,) = await dead_letter_events(client, scene.namespace)
            assert note.startswith(f"an event could not be delivered to {scene.sink} in 2 attempts")
            assert note.endswith("; dropped")

        await eventually(assert_reported)
        changed = {"permanentStatuses": [400], "deadLetters": "Keep"}
        subscription = await scene.change("orders", delivery=changed)
        await scene.wait_for_reason("orders", "Delivering")
        sink.received.clear()

        async def assert_used() -> None:
            before = (await scene.jetstream.stream_info(DEAD_STREAM)).state.messages
            await scene.publish(2)
            await wait_until_acknowledged(scene, subscription)
            assert (await scene.jetstream.stream_info(DEAD_STREAM)).state.messages == before + 1

        # The dispatcher uses the change as soon as its watch reports it.
        await eventually(assert_used)


async def test_event_waits_as_long_as_its_sink_asks(scene: Scene, sink: Sink):
    sink.answer = lambda request: 204 if sink.ids.count(request.id) == 3 else 503
    async with a_dispatcher(scene, sink_addresses(scene, sink), RetryPolicy(min_backoff=0.01)):
        await scene.subscribe(delivery={"retryAfterMax": "1h"})
        await scene.wait_for_reason("orders", "Delivering")
        sink.extra = b"\r\nretry-after: 3600\r\ncontent-length: 0\r\n\r\n"
        await scene.publish("patient")

        async def assert_waits() -> None:
            assert (await scene.jetstream.stream_info(RETRY_STREAM)).state.messages == 1

        await eventually(assert_waits)
        sink.extra = b""
        await scene.publish("impatient")
        await eventually(lambda: _assert_tried(sink, "impatient", 4))
        await assert_waits()
    assert sink.ids.count("patient") == 1


def _assert_tried(sink: Sink, event: str, attempts: int) -> None:
    assert sink.ids.count(event) == attempts, sink.ids


async def test_message_that_is_no_cloudevent_becomes_dead_letter_at_once(scene: Scene, sink: Sink):
    async with a_dispatcher(scene, sink_addresses(scene, sink)):
        subscription = await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.jetstream.publish(SUBJECT, b"hello")
        await wait_until_acknowledged(scene, subscription)
        kept = await scene.jetstream.get_message(DEAD_STREAM, 1)
    assert sink.received == []
    assert "Quintet-Tries: 1" in kept.head.decode()


async def test_refused_events_do_not_hold_up_the_others(scene: Scene, sink: Sink):
    refused = {str(number) for number in range(15)}
    sink.answer = lambda request: 400 if request.id in refused else 204
    async with a_dispatcher(scene, sink_addresses(scene, sink), RetryPolicy()):
        subscription = await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(*range(115))
        await wait_until_acknowledged(scene, subscription)
        kept = (await scene.jetstream.stream_info(DEAD_STREAM)).state.messages
    assert sorted(sink.ids, key=int) == [str(number) for number in range(115)]
    assert kept == len(refused)


async def test_events_that_wait_for_a_retry_do_not_hold_up_the_others(scene: Scene, sink: Sink):
    failing = {str(number) for number in range(15)}
    sink.answer = lambda request: 503 if request.id in failing else 204
    # Without room for the failing events outside of the events in flight, the others would wait for minutes.
    async with a_dispatcher(scene, sink_addresses(scene, sink), RetryPolicy(min_backoff=20, max_backoff=20)):
        await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(*range(115))

        def assert_others_arrived() -> None:
            assert set(sink.ids) == {str(number) for number in range(115)}, sorted(sink.ids, key=int)

        await eventually(assert_others_arrived, within=15)
        assert (await scene.jetstream.stream_info(RETRY_STREAM)).state.messages == len(failing)
        assert len(sink.ids) == 115, "a retry came too early"
        failing.clear()
        await wait_until_acknowledged(scene, await scene.change("orders"))
    assert len(sink.ids) == 130, "an event was delivered more often than it failed"


async def test_retry_survives_restart_of_dispatcher_and_ends_as_dead_letter_after_all_attempts(
    scene: Scene, sink: Sink
):
    sink.answer = lambda request: 503
    patience = RetryPolicy(max_attempts=4, min_backoff=0.5, max_backoff=0.5)
    async with a_dispatcher(scene, sink_addresses(scene, sink), patience):
        subscription = await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(1)

        def assert_tried() -> None:
            assert len(sink.ids) >= 2

        await eventually(assert_tried)
    async with a_dispatcher(scene, sink_addresses(scene, sink), patience):
        await wait_until_acknowledged(scene, subscription)
        kept = await scene.jetstream.get_message(DEAD_STREAM, 1)
    assert sink.ids == ["1"] * 4
    assert f"Quintet-Subject: {SUBJECT}" in kept.head.decode()
    assert "Quintet-Tries: 4" in kept.head.decode()


async def test_max_in_flight_holds_across_two_dispatchers(scene: Scene, sink: Sink):
    sink.hold = asyncio.Event()
    async with (
        a_dispatcher(scene, sink_addresses(scene, sink)),
        a_dispatcher(scene, sink_addresses(scene, sink)),
    ):
        subscription = await scene.subscribe(config={"maxInFlightMessages": 3})
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(*range(20))
        await eventually(lambda: _assert_in_flight(sink, 3))
        sink.hold.set()
        await wait_until_acknowledged(scene, subscription)
    assert sink.most_under_way == 3
    assert sorted(map(int, sink.ids)) == list(range(20))


def _assert_in_flight(sink: Sink, number: int) -> None:
    assert sink.under_way == number


async def test_max_in_flight_of_one_keeps_order_when_sink_fails(scene: Scene, sink: Sink):
    taken: list[str] = []
    failed: set[str] = set()

    def answer(request):
        if int(request.id) % 3 == 0 and request.id not in failed:
            failed.add(request.id)
            return 503
        taken.append(request.id)
        return 204

    sink.answer = answer
    async with (
        a_dispatcher(scene, sink_addresses(scene, sink)),
        a_dispatcher(scene, sink_addresses(scene, sink)),
    ):
        subscription = await scene.subscribe(config={"maxInFlightMessages": 1})
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(*range(30))
        await wait_until_acknowledged(scene, subscription)
    assert taken == [str(number) for number in range(30)]


async def test_changed_subscription_updates_its_consumer_in_place(scene: Scene, sink: Sink):
    async with a_dispatcher(scene, sink_addresses(scene, sink)):
        subscription = await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        name = consumer_name(subscription.metadata)
        before = await scene.jetstream.consumer_info(STREAM, name)
        await scene.change("orders", types=["order.paid.v1", TYPE], config={"maxInFlightMessages": 77})

        async def assert_changed():
            info = await scene.jetstream.consumer_info(STREAM, name)
            assert info.config is not None
            assert info.config.max_ack_pending == 77
            assert info.config.filter_subjects == ("kyma.commerce.order.paid.v1", SUBJECT)
            return info

        after = await eventually(assert_changed)
        assert after.created == before.created
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(1, subject="kyma.commerce.order.paid.v1")
        await scene.publish(2)
        await wait_until_acknowledged(scene, subscription)
    assert sorted(sink.ids) == ["1", "2"]


async def test_events_without_dispatcher_are_delivered_after_it_starts(scene: Scene, sink: Sink):
    subscription = await scene.subscribe()
    await scene.wait_for_reason("orders", "DispatcherNotPulling")
    await scene.publish(1, 2, 3)
    async with a_dispatcher(scene, sink_addresses(scene, sink)):
        await wait_until_acknowledged(scene, subscription)
        await scene.wait_for_reason("orders", "Delivering")
    assert sorted(sink.ids) == ["1", "2", "3"]


async def test_no_event_is_lost_when_nats_server_is_killed(
    scene: Scene, sink: Sink, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(consumers, "ACK_SECONDS", 5)
    # Until it is killed the server gets progress acknowledgements for all ten.
    monkeypatch.setattr(delivery, "PROGRESS_SECONDS", 0.5)
    sink.hold = asyncio.Event()
    async with a_dispatcher(scene, sink_addresses(scene, sink), RetryPolicy(min_backoff=0.1)):
        subscription = await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(*range(10))
        await eventually(lambda: _assert_in_flight(sink, 10))
        await scene.server.kill()
        sink.hold.set()
        await eventually(lambda: _assert_all_received(sink, 10))
        await scene.server.start()
        await wait_until_acknowledged(scene, subscription)
    # Events that the sink accepted are not sent again, although the server does not know of them.
    assert sorted(map(int, sink.ids)) == list(range(10))


def _assert_all_received(sink: Sink, number: int) -> None:
    assert len(set(sink.ids)) == number, sink.ids


async def test_stopping_dispatcher_finishes_deliveries_in_flight(scene: Scene, sink: Sink):
    sink.hold = asyncio.Event()
    async with a_dispatcher(scene, sink_addresses(scene, sink)) as dispatcher:
        subscription = await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(*range(5))
        await eventually(lambda: _assert_in_flight(sink, 5))
        dispatcher.stop()
        assert dispatcher.check_ready() == "shutting down"
        sink.hold.set()
    await wait_until_acknowledged(scene, subscription)
    assert sorted(map(int, sink.ids)) == list(range(5))


async def test_redirect_from_sink_is_not_followed(scene: Scene, sink: Sink):
    async with a_sink() as elsewhere:
        sink.answer = lambda request: 302
        sink.extra = f"\r\nlocation: http://127.0.0.1:{elsewhere.port}/\r\ncontent-length: 0\r\n\r\n".encode()
        async with a_dispatcher(scene, sink_addresses(scene, sink)):
            subscription = await scene.subscribe()
            await scene.wait_for_reason("orders", "Delivering")
            await scene.publish(1)
            await wait_until_acknowledged(scene, subscription)
    assert len(sink.ids) == IMPATIENT.max_attempts
    assert elsewhere.received == []


async def test_endless_sink_response_costs_only_its_connection(scene: Scene, sink: Sink):
    sink.extra = b"\r\ncontent-length: 10000000\r\n\r\n" + b"x" * 200_000
    async with a_dispatcher(scene, sink_addresses(scene, sink)):
        subscription = await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        sink.answer = lambda request: 200
        await scene.publish(*range(5))
        await wait_until_acknowledged(scene, subscription)
    assert sorted(map(int, sink.ids)) == list(range(5))


async def test_deleted_subscription_stops_delivery_and_leaves_no_consumer(
    scene: Scene, sink: Sink, client: Client
):
    async with a_dispatcher(scene, sink_addresses(scene, sink)) as dispatcher:
        await scene.subscribe()
        await scene.subscribe("others")
        await scene.wait_for_reason("orders", "Delivering")
        await scene.wait_for_reason("others", "Delivering")
        await client.delete(SUBSCRIPTIONS, ObjectKey(scene.namespace, "orders"))

        async def assert_gone():
            names = [each.name for each in await scene.jetstream.consumers(STREAM)]
            assert len(names) == 1, names
            assert dispatcher.check_ready() is None, dispatcher.check_ready()

        await eventually(assert_gone)
        await scene.publish(1)
        await eventually(lambda: _assert_one(sink))


async def test_slow_sink_gets_event_once_although_ack_wait_passes(
    scene: Scene, sink: Sink, monkeypatch: pytest.MonkeyPatch
):
    # Tolerates a machine that stalls for seconds.
    monkeypatch.setattr(consumers, "ACK_SECONDS", 6)
    monkeypatch.setattr(delivery, "PROGRESS_SECONDS", 0.5)
    sink.hold = asyncio.Event()
    async with (
        a_dispatcher(scene, sink_addresses(scene, sink)),
        a_dispatcher(scene, sink_addresses(scene, sink)),
    ):
        subscription = await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(1)
        await eventually(lambda: _assert_in_flight(sink, 1))
        await _wait_for_ack_timeout(scene)
        info = await scene.jetstream.consumer_info(STREAM, consumer_name(subscription.metadata))
        assert (info.num_ack_pending, info.num_redelivered) == (1, 0), info
        sink.hold.set()
        await wait_until_acknowledged(scene, subscription)
    assert sink.ids == ["1"]


async def _wait_for_ack_timeout(scene: Scene) -> None:
    """Wait until the server redelivers an event that is never acknowledged."""
    silent: list[Delivery] = []
    config = ConsumerConfig(
        durable_name="silent", filter_subjects=(SUBJECT,), ack_wait=consumers.ACK_SECONDS * SECOND
    )
    await scene.jetstream.create_or_update_consumer(STREAM, config)
    pull = scene.jetstream.pull(STREAM, "silent", 2, silent.append)
    try:
        await eventually(lambda: _assert_redelivered(silent))
    finally:
        pull.stop()
        await scene.jetstream.delete_consumer(STREAM, "silent")


def _assert_redelivered(deliveries: list[Delivery]) -> None:
    assert [each.delivered for each in deliveries][:2] == [1, 2], deliveries


async def test_events_of_killed_dispatcher_are_delivered_by_another(
    scene: Scene, sink: Sink, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(consumers, "ACK_SECONDS", 2)
    sink.hold = asyncio.Event()
    dying = DispatcherProcess(scene.settings, scene.kubeconfig, sink_addresses(scene, sink))
    try:
        subscription = await scene.subscribe()
        await dying.start()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(1, 2, 3)
        await eventually(lambda: _assert_held(sink, {"1", "2", "3"}))
    finally:
        await dying.end()
    sink.hold.set()
    async with a_dispatcher(scene, sink_addresses(scene, sink)):
        await wait_until_acknowledged(scene, subscription)
    assert set(sink.ids) == {"1", "2", "3"}


def _assert_held(sink: Sink, ids: set[str]) -> None:
    # Not the count: an event that exceeds the ack wait is redelivered.
    assert {each.id for each in sink.waiting} == ids


async def test_invalid_subscription_is_not_delivered_until_corrected(scene: Scene, sink: Sink):
    async with a_dispatcher(scene, sink_addresses(scene, sink)) as dispatcher:
        subscription = await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.change("orders", sink="http://elsewhere.example.com")
        await scene.wait_for_reason("orders", "InvalidSpec")
        await scene.publish(1)
        assert dispatcher.check_ready() is None, "other subscriptions are affected"
        await scene.change("orders", sink=scene.sink)
        await wait_until_acknowledged(scene, subscription)
    assert sink.ids == ["1"]


async def test_two_subscriptions_to_one_type_both_get_every_event(scene: Scene, sink: Sink):
    async with a_dispatcher(scene, sink_addresses(scene, sink)):
        first = await scene.subscribe("first", sink=scene.sink + "/first")
        second = await scene.subscribe("second", sink=scene.sink + "/second")
        for name in ("first", "second"):
            await scene.wait_for_reason(name, "Delivering")
        await scene.publish(1, 2)
        await wait_until_acknowledged(scene, first)
        await wait_until_acknowledged(scene, second)
    assert sorted((each.path, each.id) for each in sink.received) == [
        ("/events/first", "1"), ("/events/first", "2"), ("/events/second", "1"), ("/events/second", "2"),
    ]  # fmt: skip


async def test_subscription_gets_only_its_types_although_another_type_has_the_same_subject(
    scene: Scene, sink: Sink
):
    async with a_dispatcher(scene, sink_addresses(scene, sink)):
        plain = await scene.subscribe(
            "plain", sink=scene.sink + "/plain", source="sap", types=["kyma.custom.app.order.v1"]
        )
        complete = await scene.subscribe(
            "complete", sink=scene.sink + "/complete", types=["sap.kyma.custom.app.order.v1"]
        )
        for name in ("plain", "complete"):
            await scene.wait_for_reason(name, "Delivering")
        subject = "kyma.sap.kyma.custom.app.order.v1"
        for event_type in ("kyma.custom.app.order.v1", "sap.kyma.custom.app.order.v1"):
            kept = {"ce-type": event_type, "ce-originaltype": event_type}
            await scene.publish(event_type, subject=subject, **kept)
        for subscription in (plain, complete):
            await wait_until_acknowledged(scene, subscription)
    assert sorted((each.path, each.id) for each in sink.received) == [
        ("/events/complete", "sap.kyma.custom.app.order.v1"), ("/events/plain", "kyma.custom.app.order.v1"),
    ]  # fmt: skip


async def test_wildcards_and_filters_select_the_events_of_a_subscription(scene: Scene, sink: Sink):
    async with a_dispatcher(scene, sink_addresses(scene, sink)):
        wild = await scene.subscribe(
            "wild", sink=scene.sink + "/wild", types=["order.*.v1", "invoice.>"], typeMatching="wildcard"
        )
        filters = [{"prefix": {"subject": "eu/"}}, {"not": {"exact": {"priority": "low"}}}]
        filtered = await scene.subscribe("filtered", sink=scene.sink + "/filtered", filters=filters)
        for name in ("wild", "filtered"):
            await scene.wait_for_reason(name, "Delivering")
        info = await scene.jetstream.consumer_info(STREAM, consumer_name(wild.metadata))
        assert info.config is not None
        assert info.config.filter_subjects == ("kyma.commerce.order.*.v1", "kyma.commerce.invoice.>")
        for event_type in ("order.created.v1", "order.paid.v1", "order.paid.v2", "invoice.sent", "order.v1"):
            kept = {"ce-type": event_type, "ce-originaltype": event_type}
            await scene.publish(event_type, subject=f"kyma.commerce.{event_type}", **kept)
        for number, attributes in enumerate(({"subject": "eu/1"}, {"subject": "us/1"}, {"priority": "low"})):
            given = {f"ce-{name}": value for name, value in attributes.items()}
            await scene.publish(number, **{"ce-subject": "eu/2", **given})
        for subscription in (wild, filtered):
            await wait_until_acknowledged(scene, subscription)
    received = {
        path: {each.id for each in sink.received if each.path.endswith(path)} for path in ("wild", "filtered")
    }
    assert received == {
        "wild": {"order.created.v1", "order.paid.v1", "invoice.sent", "0", "1", "2"}, "filtered": {"0"},
    }  # fmt: skip


async def test_nothing_is_sent_to_external_name_service(scene: Scene, sink: Sink, client: Client):
    host = f"out.{scene.namespace}.svc.cluster.local"
    await create_service(client, scene.namespace, "out", type="ExternalName", externalName="example.com")
    async with a_dispatcher(scene, {**sink_addresses(scene, sink), host: ("127.0.0.1", sink.port)}):
        await scene.subscribe("out", sink=f"http://{host}/out")
        await scene.subscribe()
        await scene.wait_for_reason("out", "SinkLeavesCluster")
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(1)
        await eventually(lambda: _assert_one(sink))
        await client.delete(SERVICES, scene.key("out"))
        await create_service(client, scene.namespace, "out")
        await scene.wait_for_reason("out", "Delivering")
        await eventually(lambda: _assert_paths(sink, ["/events", "/out"]))


def _assert_paths(sink: Sink, want: list[str]) -> None:
    assert [each.path for each in sink.received] == want


async def test_dispatcher_exits_for_restart_after_last_reconnect(scene: Scene, sink: Sink, cluster: Cluster):
    nats = msgspec.structs.replace(scene.settings.nats, max_reconnects=2, reconnect_seconds=0.1)
    told = msgspec.structs.replace(scene.settings, nats=nats)
    process = DispatcherProcess(told, scene.kubeconfig, sink_addresses(scene, sink))
    try:
        await process.start()
        await scene.server.kill()
        assert await asyncio.wait_for(process.program.ended(), 60) == 1, process.program.log
        assert "the connection to the backend failed permanently" in process.program.log[-1], (
            process.program.log
        )
    finally:
        await process.end()


async def test_dispatcher_reports_not_ready_until_nats_server_starts(
    scene: Scene, sink: Sink, cluster: Cluster
):
    await scene.server.kill()
    process = DispatcherProcess(scene.settings, scene.kubeconfig, sink_addresses(scene, sink))
    try:
        await process.program.start()

        async def assert_waiting() -> None:
            answer = await process.get("/readyz")
            assert answer.status == 503, answer
            assert b"no connection to NATS" in answer.body, answer

        await eventually(assert_waiting, within=60)
        await scene.server.start()
        await eventually(process.ready, within=60)
    finally:
        await process.end()


async def test_invalid_credentials_end_dispatcher_with_one_line_error(
    scene: Scene, sink: Sink, cluster: Cluster, tmp_path: Path
):
    (tmp_path / "nkey").write_text("nonsense")
    nats = msgspec.structs.replace(scene.settings.nats, credentials=str(tmp_path))
    told = msgspec.structs.replace(scene.settings, nats=nats)
    process = DispatcherProcess(told, scene.kubeconfig, sink_addresses(scene, sink))
    try:
        await process.program.start()
        assert await asyncio.wait_for(process.program.ended(), 60) == 1
        assert process.program.log[-1].startswith("Error: invalid Secret with credentials: nkey"), (
            process.program.log
        )
        assert "nonsense" not in "".join(process.program.log)
    finally:
        await process.end()
