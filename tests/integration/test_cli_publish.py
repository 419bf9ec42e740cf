"""Test events: `quintet publish` with a real publisher proxy, NATS server, dispatcher and API server.

The API server has no pods to proxy to here, so the fault proxy passes requests for the Service on.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.cli.commands import Person
from kit.faults.proxy import FaultProxy
from kit.faults.proxy.requests import Request
from kit.http.sink import Sink, a_sink
from kit.kinds.subscriptions import Scene, a_dispatcher, an_operated_scene
from kit.nats.publishers import Publisher, a_publisher, settings
from quintet.controllers.subscription import controller
from quintet.eventing.dispatcher.decide.retry_policy import RetryPolicy
from quintet.kube.client import Client
from quintet.local.cluster import Cluster

if TYPE_CHECKING:
    from aiohttp import web

    from kit.faults.proxy.call import Call

POLICY = RetryPolicy(max_attempts=3, min_backoff=0.05, max_backoff=0.05)
EVENT = ("--source", "commerce", "--type", "order.created.v1")


@dataclass
class ToPublisher:
    """Passes a request for the Service on to a publisher proxy."""

    publisher: Publisher

    async def apply(self, call: "Call") -> "web.StreamResponse":
        head = f"POST /publish HTTP/1.1\r\nHost: x\r\nContent-Type: {call.incoming.content_type}\r\n"
        head += f"Content-Length: {len(call.data)}\r\n\r\n"
        answer = await self.publisher.ask(head.encode() + call.data)
        return call.answer(answer.status, answer.body.decode(), {})


def is_publish(request: Request) -> bool:
    return request.path.endswith("/services/main-publisher-proxy:80/proxy/publish")


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


@pytest.fixture
async def person(scene: Scene, proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[Person]:
    async with a_publisher(settings(scene.server.url)) as publisher:
        await publisher.ready()
        proxy.inject(ToPublisher(publisher), when=is_publish, times=None)
        yield Person(proxy.write_kubeconfig(tmp_path), scene.namespace)


async def test_test_event_is_stored_and_delivered_to_matching_subscriptions_only(
    scene: Scene, sink: Sink, person: Person
):
    async with a_dispatcher(scene, {scene.host: ("127.0.0.1", sink.port)}, POLICY):
        await scene.subscribe()
        await scene.subscribe("others", types=["order.paid.v1"])
        await scene.wait_for_reason("orders", "Delivering")
        await scene.wait_for_reason("others", "Delivering")
        matches = await person.sees("publish", *EVENT, "--dry-run")
        assert matches.splitlines() == ["subscription/orders: matches (ready)"]
        assert sink.received == []
        shown = await person.sees("publish", "main", *EVENT, "--id", "t-1", "--data", '{"n": [1]}')
    assert shown.splitlines() == [
        "subscription/orders: matches (ready)",
        "event t-1: stored",
        "subscription/orders: delivered in attempt 1 (status 204)",
    ]
    (received,) = sink.received
    assert (received.id, received.body, received.headers["ce-quintettest"]) == ("t-1", b'{"n":[1]}', "true")


async def test_test_event_that_its_sink_refuses_is_reported_with_each_attempt(
    scene: Scene, sink: Sink, person: Person
):
    answers = iter([503, 204])
    sink.answer = lambda request: next(answers)
    async with a_dispatcher(scene, {scene.host: ("127.0.0.1", sink.port)}, POLICY):
        await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        shown = await person.sees("publish", *EVENT, "--id", "t-1")
    assert shown.splitlines()[2:] == [
        "subscription/orders: not delivered in attempt 1 (status 503)",
        "subscription/orders: delivered in attempt 2 (status 204)",
    ]


async def test_test_event_for_nobody_or_a_paused_subscription_is_a_failure(scene: Scene, person: Person):
    await scene.subscribe(paused=True)
    await scene.wait_for_reason("orders", "Paused")
    paused = await person.asks("publish", *EVENT)
    assert paused.returncode == 1
    assert paused.stdout.splitlines()[0] == "subscription/orders: matches (not ready: Paused)"
    assert paused.stdout.splitlines()[1].endswith(": stored")
    nobody = await person.asks("publish", "--source", "commerce", "--type", "order.unknown.v1")
    assert nobody.returncode == 1
    assert "no Subscription of main matches" in nobody.stdout
    invalid = await person.asks("publish", "--source", "commerce", "--type", "order..v1")
    assert invalid.returncode == 1
    assert "MUST NOT have empty segments" in invalid.stderr
