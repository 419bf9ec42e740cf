"""JetStream on a real server: messages stored once, errors with a reason, no loss by a kill."""

import asyncio

import pytest

from kit.eventually import eventually, eventually_true
from kit.nats.server import NatsServer, a_nats_server
from quintet.clock import SystemClock
from quintet.nats import jetstream
from quintet.nats.client import NatsClient
from quintet.nats.errors import (
    ConsumerNotFound,
    Disconnected,
    JetStreamError,
    MessageNotFound,
    NameInUse,
    NatsError,
    RequestTimeout,
    StreamFull,
    StreamMissing,
    StreamNotFound,
    SubjectsInUse,
)
from quintet.nats.jetstream import ConsumerConfig, JetStream, StreamConfig
from quintet.nats.options import NatsOptions

PATIENCE = 30.0


@pytest.fixture
async def server(tmp_path):
    async with a_nats_server(tmp_path) as running:
        yield running


@pytest.fixture
async def stream(server: NatsServer):
    """JetStream with a stream `events` on the subjects `kyma.>`."""
    options = NatsOptions(server.url, connect_seconds=20.0, reconnect_seconds=0.3)
    async with NatsClient(options, SystemClock()) as client:
        made = JetStream(client, timeout=PATIENCE)
        await made.create_stream(StreamConfig(name="events", subjects=("kyma.>",)))
        yield made


async def test_published_message_is_acknowledged_and_stored_with_headers(stream):
    ack = await stream.publish("kyma.a", b"hello", {"ce-id": "1"}, PATIENCE)

    assert (ack.stream, ack.sequence, ack.duplicate) == ("events", 1, False)
    kept = await stream.get_message("events", 1)
    assert (kept.subject, kept.payload) == ("kyma.a", b"hello")
    assert b"ce-id: 1\r\n" in kept.head


async def test_second_publish_with_same_message_id_is_not_stored(stream):
    headers = {jetstream.MESSAGE_ID: "order-1"}
    first = await stream.publish("kyma.a", b"1", headers, PATIENCE)
    second = await stream.publish("kyma.a", b"1", headers, PATIENCE)

    assert (first.duplicate, second.duplicate, second.sequence) == (False, True, 1)
    assert (await stream.stream_info("events")).state.messages == 1


async def test_publish_to_subject_without_stream_fails_at_once(stream):
    with pytest.raises(StreamMissing, match=r"other\.subject"):
        await stream.publish("other.subject", b"", timeout=300)


async def test_publish_with_wrong_expected_stream_is_rejected(stream):
    with pytest.raises(JetStreamError) as caught:
        await stream.publish("kyma.a", b"", {jetstream.EXPECTED_STREAM: "other"}, PATIENCE)
    assert caught.value.err_code == 10060


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"max_msgs": 3}, id="messages"),
        pytest.param({"max_bytes": 600}, id="bytes"),
        pytest.param(
            {"max_msgs_per_subject": 3, "discard_new_per_subject": True}, id="messages of a subject"
        ),
    ],
)
async def test_publish_to_full_stream_raises_stream_full(stream, limits):
    await stream.create_stream(StreamConfig(name="small", subjects=("small.>",), discard="new", **limits))

    async def fill() -> None:
        for _ in range(50):
            await stream.publish("small.a", b"x" * 50, timeout=PATIENCE)

    with pytest.raises(StreamFull):
        await fill()


async def test_streams_are_created_updated_and_deleted(stream):
    config = StreamConfig(
        name="orders", subjects=("orders.>",), max_msgs=10, discard="new", retention="interest"
    )
    made = await stream.create_stream(config)
    assert (made.config.max_msgs, made.config.discard, made.config.retention) == (10, "new", "interest")
    await stream.create_stream(config)
    with pytest.raises(NameInUse):
        await stream.create_stream(StreamConfig(name="orders", subjects=("orders.>",), max_msgs=99))
    with pytest.raises(SubjectsInUse):
        await stream.create_stream(StreamConfig(name="other", subjects=("orders.new",)))
    changed = await stream.update_stream(
        StreamConfig(name="orders", subjects=("orders.>",), max_msgs=20, discard="new", retention="interest")
    )
    assert changed.config.max_msgs == 20
    await stream.delete_stream("orders")
    with pytest.raises(StreamNotFound):
        await stream.stream_info("orders")
    with pytest.raises(StreamNotFound):
        await stream.delete_stream("orders")
    with pytest.raises(StreamNotFound):
        await stream.update_stream(config)


async def test_consumers_are_created_updated_in_place_listed_and_deleted(stream):
    config = ConsumerConfig(durable_name="c", filter_subjects=("kyma.a", "kyma.b"), max_ack_pending=5)
    made = await stream.create_or_update_consumer("events", config)
    assert made.config is not None
    assert made.config.filter_subjects == ("kyma.a", "kyma.b")
    changed = await stream.create_or_update_consumer(
        "events", ConsumerConfig(durable_name="c", filter_subjects=("kyma.a", "kyma.c"), max_ack_pending=50)
    )
    assert changed.created == made.created, "it is the same consumer"
    assert (await stream.consumer_info("events", "c")).config.max_ack_pending == 50
    for n in range(300):
        await stream.create_or_update_consumer("events", ConsumerConfig(durable_name=f"many-{n}"))
    assert {each.name for each in await stream.consumers("events")} == {
        "c",
        *(f"many-{n}" for n in range(300)),
    }
    await stream.delete_consumer("events", "c")
    with pytest.raises(ConsumerNotFound):
        await stream.consumer_info("events", "c")
    with pytest.raises(StreamNotFound):
        await stream.consumers("nothing")
    with pytest.raises(MessageNotFound):
        await stream.get_message("events", 77)


async def test_foreign_push_consumer_does_not_hide_ours(stream):
    request = b'{"stream_name":"events","config":{"ack_policy":"none","deliver_subject":"push.here","deliver_policy":"by_start_time","opt_start_time":"2026-01-01T00:00:00Z"}}'
    await stream.client.request("$JS.API.CONSUMER.CREATE.events", request, timeout=PATIENCE)
    await stream.create_or_update_consumer("events", ConsumerConfig(durable_name="ours"))

    assert "ours" in {each.name for each in await stream.consumers("events")}


async def test_no_acknowledged_message_is_lost_when_server_is_killed(stream, server):
    """Every number is published until acknowledged; a retry after a lost response is stored once."""
    acknowledged: set[int] = set()
    kills = 0

    async def publish(number: int) -> None:
        while number not in acknowledged:
            try:
                await stream.publish(
                    "kyma.n", str(number).encode(), {jetstream.MESSAGE_ID: str(number)}, timeout=5
                )
                acknowledged.add(number)
            except (Disconnected, RequestTimeout, StreamMissing):
                await asyncio.sleep(0.05)

    async def worker(first: int) -> None:
        for number in range(first, 3000, 30):
            await publish(number)

    async def killer() -> None:
        nonlocal kills
        for share in (0.2, 0.5, 0.8):
            await eventually_true(lambda share=share: len(acknowledged) > 3000 * share, within=120)
            await server.restart()
            kills += 1

    await asyncio.gather(killer(), *(worker(first) for first in range(30)))

    info = await eventually(lambda: stream.stream_info("events"), within=60)
    kept = [int((await stream.get_message("events", n + 1)).payload) for n in range(info.state.messages)]
    assert kills == 3
    assert sorted(kept) == list(range(3000))


async def test_publish_without_server_fails_at_once(stream, server):
    await server.kill()
    await eventually_true(lambda: not stream.client.connected)
    for _ in range(100):
        with pytest.raises(NatsError):
            await stream.publish("kyma.a", b"", timeout=300)
