"""A continuous pull on a real server: no message lost, the limit kept, and recovery from every failure."""

import asyncio

import pytest

from kit.clock import VirtualClock
from kit.eventually import eventually, eventually_true
from kit.nats.server import NatsServer, a_nats_server
from quintet.clock import SystemClock
from quintet.nats.client import NatsClient
from quintet.nats.config import SECOND
from quintet.nats.errors import ConsumerNotFound, NatsError
from quintet.nats.jetstream import ConsumerConfig, Delivery, JetStream, StreamConfig
from quintet.nats.options import NatsOptions

PATIENCE = 30.0


@pytest.fixture
async def server(tmp_path):
    async with a_nats_server(tmp_path) as running:
        yield running


def a_client(server: NatsServer, clock=None) -> NatsClient:
    options = NatsOptions(server.url, connect_seconds=20.0, reconnect_seconds=0.3, ping_seconds=1000)
    return NatsClient(options, clock or SystemClock())


@pytest.fixture
async def stream(server):
    async with a_client(server) as client:
        made = JetStream(client, timeout=PATIENCE)
        await made.create_stream(StreamConfig(name="events", subjects=("kyma.>",)))
        await made.create_or_update_consumer("events", consumer())
        yield made


def consumer(**more) -> ConsumerConfig:
    return ConsumerConfig(durable_name="c", **{"ack_wait": 60 * SECOND, **more})


async def publish(stream: JetStream, count: int, first: int = 0) -> None:
    await asyncio.gather(
        *(stream.publish("kyma.n", str(n).encode(), timeout=PATIENCE) for n in range(first, first + count))
    )


class Sink:
    """Collects deliveries and by default acknowledges them."""

    def __init__(self, *, acknowledge: bool = True) -> None:
        self.acknowledge = acknowledge
        self.deliveries: list[Delivery] = []
        self.most = 0
        self.open = 0

    def __call__(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        self.open += 1
        self.most = max(self.most, self.open)
        if self.acknowledge:
            self.settle(delivery)

    def settle(self, delivery: Delivery) -> None:
        self.open -= 1
        delivery.ack()

    @property
    def numbers(self) -> list[int]:
        return [int(each.message.payload) for each in self.deliveries]


async def test_every_message_is_delivered_once_and_in_order(stream):
    sink = Sink()
    pull = stream.pull("events", "c", 50, sink)
    await publish(stream, 2000)

    await eventually_true(lambda: len(sink.numbers) >= 2000, within=60)
    assert sorted(sink.numbers) == list(range(2000))
    assert [each.stream_sequence for each in sink.deliveries] == list(range(1, 2001))
    assert {each.delivered for each in sink.deliveries} == {1}
    await eventually(lambda: _assert_acknowledged(stream, 2000))
    pull.stop()


async def _assert_acknowledged(stream: JetStream, count: int) -> None:
    info = await stream.consumer_info("events", "c")
    assert (info.ack_floor.stream_seq, info.num_ack_pending) == (count, 0)


async def test_unacknowledged_messages_never_exceed_limit(stream):
    sink = Sink(acknowledge=False)
    await publish(stream, 100)
    pull = stream.pull("events", "c", 7, sink)
    for settled in range(100):
        await eventually_true(lambda settled=settled: len(sink.deliveries) > settled)
        assert pull.in_flight <= 7
        sink.settle(sink.deliveries[settled])

    assert sink.most <= 7
    assert sorted(sink.numbers) == list(range(100))
    pull.stop()


async def test_two_pulls_on_one_consumer_share_messages(stream, server):
    async with a_client(server) as other:
        sinks = Sink(), Sink()
        pulls = stream.pull("events", "c", 5, sinks[0]), JetStream(other).pull("events", "c", 5, sinks[1])
        await eventually_true(lambda: all(pull.is_active for pull in pulls))
        await publish(stream, 500)

        await eventually_true(lambda: len(sinks[0].numbers) + len(sinks[1].numbers) >= 500)
        assert sorted(sinks[0].numbers + sinks[1].numbers) == list(range(500))
        assert all(sink.numbers for sink in sinks)
        for pull in pulls:
            pull.stop()


async def test_rejected_message_is_redelivered_and_terminated_message_is_not(stream):
    await publish(stream, 3)
    seen: list[tuple[int, int]] = []

    def handler(delivery: Delivery) -> None:
        number = int(delivery.message.payload)
        seen.append((number, delivery.delivered))
        if number == 0 and delivery.delivered < 3:
            delivery.nak()
        elif number == 1 and delivery.delivered < 2:
            delivery.nak(0.3)
        elif number == 2:
            delivery.term("never again")
        else:
            delivery.ack()
        delivery.ack()  # the first acknowledgement counts

    pull = stream.pull("events", "c", 10, handler)
    await eventually_true(lambda: len(seen) >= 6)
    await eventually(lambda: _assert_acknowledged(stream, 3))
    assert sorted(seen) == [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (2, 1)]
    assert pull.in_flight == 0
    pull.stop()


async def test_message_in_progress_is_not_redelivered_and_abandoned_message_is(stream):
    await stream.create_or_update_consumer("events", consumer(ack_wait=6 * SECOND))
    await publish(stream, 2)
    kept: list[Delivery] = []
    pull = stream.pull("events", "c", 10, kept.append)
    await eventually_true(lambda: len(kept) >= 2)
    busy = kept[0]

    async def assert_repeated() -> None:
        busy.in_progress()
        assert len(kept) >= 3

    await eventually(assert_repeated, within=60)
    assert {each.stream_sequence for each in kept[2:]} == {2}
    pull.stop()


async def test_confirmed_acknowledgement_reaches_server(stream):
    await publish(stream, 1)
    kept: list[Delivery] = []
    pull = stream.pull("events", "c", 10, kept.append)
    await eventually_true(lambda: kept)
    await kept[0].ack_confirmed(PATIENCE)

    assert (await stream.consumer_info("events", "c")).ack_floor.stream_seq == 1
    assert kept[0].is_acknowledged
    pull.stop()


async def test_delivery_resumes_after_server_was_killed(stream, server):
    sink = Sink()
    pull = stream.pull("events", "c", 20, sink)
    for round_ in range(3):
        await publish(stream, 50, first=50 * round_)
        await eventually_true(lambda n=50 * (round_ + 1): len(set(sink.numbers)) >= n, within=60)
        await server.restart()
        await eventually_true(lambda: stream.client.connected and pull.is_active, within=60)
    await publish(stream, 50, first=150)

    await eventually_true(lambda: set(sink.numbers) == set(range(200)), within=60)
    pull.stop()


async def test_expired_pull_requests_are_renewed(server, stream, monkeypatch):
    """The client's clock stands still, so that no missed heartbeat causes a renewal."""
    async with a_client(server, VirtualClock()) as client:
        asked: list[str] = []
        send = client.publish

        def seen(subject: str, payload: bytes, headers=None, reply: str = "") -> None:
            if ".CONSUMER.MSG.NEXT." in subject:
                asked.append(reply)
            send(subject, payload, headers, reply)

        monkeypatch.setattr(client, "publish", seen)
        sink = Sink()
        pull = JetStream(client).pull("events", "c", 10, sink, expires=0.5, heartbeat=0.2)
        for n in range(4):
            before = len(asked)
            await eventually_true(lambda before=before: len(asked) > before)
            await publish(stream, 1, first=n)
            await eventually_true(lambda n=n: len(sink.numbers) == n + 1)

        await eventually_true(lambda: pull.is_active)
        assert len(set(asked)) == 1, "it was not asked anew, only again"
        pull.stop()


async def test_pull_request_is_renewed_when_heartbeats_stop(server, stream):
    """A frozen server sends no heartbeat while the client's clock advances."""
    clock = VirtualClock()
    async with a_client(server, clock) as client:
        sink = Sink()
        pull = JetStream(client).pull("events", "c", 10, sink, expires=300, heartbeat=5)
        await eventually_true(lambda: pull.is_active)
        address = pull._subscription.subject
        await server.freeze()
        try:
            await clock.advance(10)
            assert pull._subscription.subject == address, "one missed heartbeat is no reason"
            await clock.advance(10)
            assert pull._subscription.subject != address
            assert not pull.is_active, "nobody has confirmed it yet"
        finally:
            server.thaw()
        await eventually_true(lambda: pull.is_active)
        await publish(stream, 20)
        await eventually_true(lambda: len(sink.numbers) >= 20)
        assert sorted(sink.numbers) == list(range(20))
        pull.stop()


async def test_deleted_consumer_is_reported_and_recreated_consumer_is_used(stream):
    troubles: list[NatsError] = []
    sink = Sink()
    pull = stream.pull("events", "c", 10, sink, on_error=troubles.append)
    await eventually_true(lambda: pull.is_active)
    await stream.delete_consumer("events", "c")
    await eventually_true(lambda: troubles)
    assert isinstance(troubles[0], ConsumerNotFound)
    assert not pull.is_active
    await stream.create_or_update_consumer("events", consumer())
    await publish(stream, 3)

    await eventually_true(lambda: len(sink.numbers) == 3, within=60)
    await eventually_true(lambda: pull.is_active)  # the status of a request may follow its messages
    pull.stop()


async def test_pull_on_missing_consumer_fails_without_busy_loop(stream):
    troubles: list[NatsError] = []
    pull = stream.pull("events", "nobody", 10, Sink(), on_error=troubles.append)
    await eventually_true(lambda: len(troubles) >= 2)
    assert not pull.is_active
    assert isinstance(troubles[0], ConsumerNotFound)
    pull.stop()


async def test_server_knows_number_of_waiting_pulls(stream):
    pull = stream.pull("events", "c", 10, Sink())

    async def assert_waiting(count: int) -> None:
        assert (await stream.consumer_info("events", "c")).num_waiting == count

    await eventually(lambda: assert_waiting(1))
    pull.stop()
    await eventually(lambda: assert_waiting(0))
