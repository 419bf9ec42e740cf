"""Dead letters are listed, replayed and dropped: a real API server, a real NATS server, the real command."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kit.cli.commands import Person
from kit.eventually import eventually
from kit.http.sink import Sink, a_sink
from kit.kinds.subscriptions import (
    DEAD_LETTERS,
    DEAD_STREAM,
    RETRY_STREAM,
    SECONDS,
    Scene,
    a_dispatcher,
    an_operated_scene,
    headers,
)
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription
from quintet.apis.subscription.dead_letters import REQUEST, DeadLetterStatus
from quintet.controllers.subscription import controller, dead_letters
from quintet.eventing.decide.naming import consumer_name, dead_letter_subject
from quintet.eventing.dispatcher.decide.retry_policy import RetryPolicy
from quintet.kube.client import Client
from quintet.local.cluster import Cluster

POLICY = RetryPolicy(max_attempts=2, min_backoff=0.05, max_backoff=0.05)


@pytest.fixture
async def scene(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    for name in ("POLL_SECONDS", "FIRST_POLL_SECONDS", "DEAD_LETTER_SECONDS"):
        monkeypatch.setattr(controller, name, 0.3)
    async with an_operated_scene(client, namespace, cluster.kubeconfig, tmp_path) as made:
        yield made


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    async with a_sink(lambda request: 400) as listening:
        yield listening


@pytest.fixture
def person(cluster: Cluster, namespace: str) -> Person:
    return Person(cluster.kubeconfig, namespace)


def addresses(scene: Scene, sink: Sink) -> dict[str, tuple[str, int]]:
    return {scene.host: ("127.0.0.1", sink.port)}


async def store(scene: Scene, subscription: Subscription, *numbers: int, result: str = "status 500") -> None:
    """Store dead letters as dispatchers do."""
    subject = dead_letter_subject(DEAD_LETTERS, consumer_name(subscription.metadata))
    for number in numbers:
        more = {"Quintet-Answer": result, "Quintet-Tries": "64"}
        await scene.jetstream.publish(subject, b"{}", headers(number, **more), SECONDS)


async def wait_for_count(scene: Scene, count: int, name: str = "orders") -> DeadLetterStatus:
    """Wait until the status has this many dead letters."""

    async def probe() -> DeadLetterStatus:
        found = await scene.client.get(SUBSCRIPTIONS, scene.key(name), Subscription)
        assert found.status.dead_letters.count == count, found.status.dead_letters
        return found.status.dead_letters

    return await eventually(probe, within=60)


async def test_refused_event_is_listed_and_arrives_after_replay(scene: Scene, sink: Sink, person: Person):
    async with a_dispatcher(scene, addresses(scene, sink), POLICY):
        await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish("a", "b")
        await wait_for_count(scene, 2)
        lines = (await person.sees("deadletters", "list")).splitlines()
        assert lines[0].split() == ["SUBSCRIPTION", "NUMBER", "EVENT", "TYPE", "ATTEMPTS", "AGE", "RESULT"]
        assert {tuple(line.split()[i] for i in (0, 2, 4)) for line in lines[1:]} == {
            ("orders", "a", "1"),
            ("orders", "b", "1"),
        }
        assert all(line.endswith("status 400") for line in lines[1:])
        sink.answer = lambda request: 204
        sink.received.clear()
        await person.sees("deadletters", "replay", "orders", "--id", "b")
        (left,) = (await wait_for_count(scene, 1)).oldest
        assert left.id == "a"

        async def assert_arrived() -> None:
            assert sink.ids == ["b"]
            assert (await scene.jetstream.stream_info(RETRY_STREAM)).state.messages == 0

        await eventually(assert_arrived)
        assert sink.received[0].body == b'{"n":1}'
        assert not [name for name in sink.received[0].headers if name.startswith("quintet-")]
        shown = json.loads(
            await person.sees("deadletters", "show", "orders", str(left.sequence), "-o", "json")
        )
        assert (shown["id"], shown["source"], shown["result"]) == ("a", "commerce", "status 400")


async def test_replayed_event_that_fails_again_becomes_dead_letter_again_and_request_ends(
    scene: Scene, sink: Sink, person: Person
):
    sink.answer = lambda request: 503
    async with a_dispatcher(scene, addresses(scene, sink), POLICY):
        await scene.subscribe()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish("a")
        before = await wait_for_count(scene, 1)
        await person.sees("deadletters", "replay", "orders", "--all")

        async def assert_new() -> DeadLetterStatus:
            found = await wait_for_count(scene, 1)
            assert found.oldest[0].sequence > before.oldest[0].sequence
            return found

        after = await eventually(assert_new)
    assert sink.ids == ["a"] * 4, "all attempts twice"
    assert (after.oldest[0].attempts, after.request.handled, after.request.complete) == (2, 1, True)


async def test_drop_deletes_only_selected_dead_letters_of_this_subscription(
    scene: Scene, person: Person, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dead_letters, "MOST_AT_ONCE", 2)
    orders, others = await scene.subscribe(), await scene.subscribe("others")
    await store(scene, others, 100)
    await store(scene, orders, 1, 2, 3)
    await store(scene, orders, *range(10, 15), result="status 503")
    await wait_for_count(scene, 1, "others")
    await person.sees("deadletters", "drop", "orders", "--result", "503")
    listed = json.loads(await person.sees("deadletters", "list", "-o", "json"))
    found = {item["subscription"]: [each["id"] for each in item["oldest"]] for item in listed["items"]}
    assert found == {"orders": ["1", "2", "3"], "others": ["100"]}
    assert (await scene.jetstream.stream_info(DEAD_STREAM)).state.messages == 4
    refused = await person.asks("deadletters", "drop", "orders")
    assert refused.returncode == 2
    assert "--all" in refused.stderr
    await person.sees("deadletters", "drop", "orders", "--after", "1h", "--before", "30m")
    assert (await scene.jetstream.stream_info(DEAD_STREAM)).state.messages == 4
    await person.sees("deadletters", "drop", "orders", "--after", "1h")
    assert (await scene.jetstream.stream_info(DEAD_STREAM)).state.messages == 1


async def test_more_dead_letters_than_can_wait_at_once_all_arrive(scene: Scene, sink: Sink, person: Person):
    sink.answer = lambda request: 204
    subscription = await scene.subscribe()
    await scene.wait_for_reason("orders", "DispatcherNotPulling")
    room = (await scene.jetstream.stream_info(RETRY_STREAM)).config.max_msgs_per_subject
    await store(scene, subscription, *range(room + 50))
    await wait_for_count(scene, room + 50)
    listed = await person.asks("deadletters", "list", "orders")
    assert f"orders has {room + 30} more" in listed.stderr
    async with a_dispatcher(scene, addresses(scene, sink), POLICY):
        await person.sees("deadletters", "replay", "orders", "--all")

        def assert_arrived() -> None:
            assert sorted(map(int, sink.ids)) == list(range(room + 50))

        await eventually(assert_arrived, within=60)


async def test_invalid_request_is_reported(scene: Scene):
    await scene.subscribe()
    annotations = {REQUEST: '{"id":"1","action":"resend"}'}
    await scene.client.patch(
        SUBSCRIPTIONS, scene.key("orders"), {"metadata": {"annotations": annotations}}, Subscription
    )

    async def assert_reported() -> None:
        found = await scene.client.get(SUBSCRIPTIONS, scene.key("orders"), Subscription)
        assert found.status.dead_letters.request.message.startswith("invalid: Invalid enum value 'resend'")

    await eventually(assert_reported)
