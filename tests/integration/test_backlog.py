"""Events that are not delivered yet are counted, and a pause keeps them: real API server and NATS server."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from kit.eventually import eventually
from kit.http.sink import Sink, a_sink
from kit.kinds.subscriptions import (
    RETRY_STREAM,
    STREAM,
    Scene,
    a_dispatcher,
    an_operated_scene,
)
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription
from quintet.apis.subscription.types import Backlog
from quintet.controllers.subscription import controller
from quintet.eventing.decide.naming import consumer_name, retry_subject
from quintet.eventing.dispatcher.decide.retry_policy import RetryPolicy
from quintet.eventing.dispatcher.retries import TRIES, stored_at
from quintet.kube.client import Client
from quintet.local.cluster import Cluster
from quintet.nats.config import StoredMessage

PATIENT = RetryPolicy(min_backoff=3600.0, max_backoff=3600.0)


@pytest.fixture
async def scene(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    for name in ("POLL_SECONDS", "FIRST_POLL_SECONDS"):
        monkeypatch.setattr(controller, name, 0.3)
    async with an_operated_scene(client, namespace, cluster.kubeconfig, tmp_path) as made:
        yield made


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    async with a_sink() as listening:
        yield listening


def addresses(scene: Scene, sink: Sink) -> dict[str, tuple[str, int]]:
    return {scene.host: ("127.0.0.1", sink.port)}


async def wait_for_counts(scene: Scene, *want: int) -> Backlog:
    """Wait until these numbers of events wait in the stream, are in flight and wait for an attempt."""

    async def probe() -> Backlog:
        found = (await scene.client.get(SUBSCRIPTIONS, scene.key("orders"), Subscription)).status.backlog
        assert (found.pending, found.in_flight, found.retrying) == want, found
        return found

    return await eventually(probe, within=60)


async def test_backlog_counts_events_that_wait_and_dates_the_oldest_one_of_its_types(scene: Scene):
    await scene.subscribe(types=["order.created.v1", "order.paid.v1"])
    await scene.subscribe("others", types=["order.cancelled.v1"])
    await scene.wait_for_reason("orders", "DispatcherNotPulling")
    await scene.wait_for_reason("others", "DispatcherNotPulling")
    assert (await wait_for_counts(scene, 0, 0, 0)).oldest == ""
    await scene.publish(0, subject="kyma.commerce.order.cancelled.v1")
    await scene.publish(1, subject="kyma.commerce.order.paid.v1")
    await scene.publish(2)
    found = await wait_for_counts(scene, 2, 0, 0)
    stored = (await scene.jetstream.get_message(STREAM, 2)).time
    assert stored is not None
    assert abs(datetime.fromisoformat(found.oldest) - stored) <= timedelta(seconds=1)


async def test_backlog_contains_events_in_flight_and_events_that_wait_for_a_retry(scene: Scene, sink: Sink):
    sink.answer = lambda request: 503
    async with a_dispatcher(scene, addresses(scene, sink), PATIENT):
        await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish("waits")
        found = await wait_for_counts(scene, 0, 0, 1)
        sink.hold = asyncio.Event()
        await scene.publish("held")
        assert (await wait_for_counts(scene, 0, 1, 1)).oldest == found.oldest
        sink.hold.set()


async def test_event_keeps_the_time_of_publishing_through_several_attempts(scene: Scene, sink: Sink):
    sink.answer = lambda request: 503
    subscription = await scene.subscribe()
    await scene.wait_for_reason("orders", "DispatcherNotPulling")
    await scene.publish("a")
    stored = (await scene.jetstream.get_message(STREAM, 1)).time
    async with a_dispatcher(scene, addresses(scene, sink), RetryPolicy(min_backoff=0.1, max_backoff=0.1)):
        subject = retry_subject(STREAM, consumer_name(subscription.metadata))

        async def read_after_three_attempts() -> StoredMessage:
            waiting = await scene.jetstream.next_message(RETRY_STREAM, subject, 0)
            assert int((waiting.headers or {})[TRIES]) >= 3
            return waiting

        waiting = await eventually(read_after_three_attempts, within=60)
    since = stored_at(waiting.headers)
    assert since is not None
    assert stored is not None
    assert abs(since - stored) < timedelta(milliseconds=2)
    assert waiting.time is not None
    assert waiting.time - since > timedelta(seconds=0.2), "two waits have passed"


async def test_paused_subscription_gets_no_events_until_the_pause_ends(scene: Scene, sink: Sink):
    async with a_dispatcher(scene, addresses(scene, sink)) as dispatcher:
        await scene.subscribe(paused=True)
        paused = await scene.wait_for_reason("orders", "Paused")
        assert paused.status.ready is False
        await scene.publish(1, 2)
        await wait_for_counts(scene, 2, 0, 0)
        assert dispatcher.check_ready() is None
        assert sink.received == []
        await scene.change("orders", paused=False)
        await scene.wait_for_reason("orders", "Delivering")
        assert (await wait_for_counts(scene, 0, 0, 0)).oldest == ""
        assert sorted(sink.ids) == ["1", "2"]


async def test_event_in_flight_is_delivered_once_although_its_subscription_is_paused(
    scene: Scene, sink: Sink
):
    async with a_dispatcher(scene, addresses(scene, sink)):
        await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        sink.hold = asyncio.Event()
        await scene.publish(1)
        await wait_for_counts(scene, 0, 1, 0)
        await scene.change("orders", paused=True)
        await scene.wait_for_reason("orders", "Paused")
        await scene.publish(2)
        await wait_for_counts(scene, 1, 1, 0)
        sink.hold.set()
        await wait_for_counts(scene, 1, 0, 0)
        assert sink.ids == ["1"]
