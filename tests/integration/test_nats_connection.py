"""Connections to a real NATS server: lost, stalled, moved, refused and restored."""

import asyncio
import signal

import pytest

from kit.clock import VirtualClock
from kit.eventually import eventually, eventually_true
from kit.nats.server import NatsServer, a_nats_server
from quintet.clock import SystemClock
from quintet.nats.client import NatsClient
from quintet.nats.errors import (
    Closed,
    Disconnected,
    NoResponders,
    Overloaded,
    PayloadTooLarge,
    ProtocolError,
    RequestTimeout,
)
from quintet.nats.messages import encode_headers
from quintet.nats.options import NatsOptions


def a_client(server: NatsServer, **options) -> NatsClient:
    settings = {"connect_seconds": 20.0, "reconnect_seconds": 0.3, **options}
    return NatsClient(NatsOptions(server.url, **settings), SystemClock())


@pytest.fixture
async def server(tmp_path):
    async with a_nats_server(tmp_path) as running:
        yield running


async def test_messages_arrive_complete_and_in_order(server):
    async with a_client(server) as client:
        seen = []
        client.subscribe("numbers.>", lambda message: seen.append((message.subject, message.payload)))
        want = [(f"numbers.{n}", str(n).encode() * (n % 50)) for n in range(5000)]
        for subject, payload in want:
            client.publish(subject, payload)
        await client.flush(60)

        assert seen == want


async def test_queue_group_delivers_each_message_to_one_member(server):
    async with a_client(server) as one, a_client(server) as two:
        seen: list[bytes] = []
        for client in (one, two):
            client.subscribe("work", lambda message: seen.append(message.payload), queue="workers")
            await client.flush(20)
        for n in range(100):
            one.publish("work", str(n).encode())

        await eventually_true(lambda: len(seen) >= 100)
        await two.flush(20)
        assert sorted(seen, key=int) == [str(n).encode() for n in range(100)]


async def test_ended_subscription_receives_nothing(server):
    async with a_client(server) as client:
        seen = []
        subscription = client.subscribe("a", seen.append)
        subscription.unsubscribe()
        subscription.unsubscribe()
        client.publish("a", b"")
        await client.flush(20)

        assert seen == []


async def test_exception_in_callback_does_not_affect_other_messages(server, caplog):
    async with a_client(server) as client:
        seen = []

        def handler(message):
            if not seen:
                seen.append("failed")
                raise ValueError("a fault of ours")
            seen.append(message.payload)

        client.subscribe("a", handler)
        for n in range(2):
            client.publish("a", str(n).encode())
        await client.flush(20)

        assert seen == ["failed", b"1"]
        assert "a fault of ours" in caplog.text


async def test_concurrent_requests_get_their_own_replies(server):
    async with a_client(server) as client:
        client.subscribe("twice", lambda message: client.publish(message.reply, message.payload * 2))
        answers = await asyncio.gather(
            *(client.request("twice", str(n).encode(), timeout=60) for n in range(500))
        )

        assert [answer.payload for answer in answers] == [str(n).encode() * 2 for n in range(500)]


async def test_request_without_responders_fails_at_once_and_without_reply_at_deadline(server):
    async with a_client(server) as client:
        with pytest.raises(NoResponders, match="nobody"):
            await client.request("nobody", b"", timeout=300)
        client.subscribe("silent", lambda message: None)
        with pytest.raises(RequestTimeout):
            await client.request("silent", b"", timeout=0.05)


async def test_oversized_message_is_rejected_and_connection_stays(server):
    async with a_client(server) as client:
        with pytest.raises(PayloadTooLarge, match="1048576"):
            client.publish("a", b"x" * (client.info.max_payload + 1))
        with pytest.raises(PayloadTooLarge, match="1048576"):
            client.publish("a", b"x" * (client.info.max_payload - 10), {"A": "b" * 20})
        with pytest.raises(ProtocolError, match="too long"):
            client.publish("a" * 5000, b"")
        await client.flush(20)
        assert client.connected


async def test_server_accepts_largest_message_that_client_allows(server):
    async with a_client(server) as client:
        seen = []
        client.subscribe("long.>", lambda message: seen.append(len(message.payload)))
        most = client.info.max_payload - len(encode_headers({"A": "b"}))
        client.publish(f"long.{'a' * 3900}", b"x" * most, {"A": "b"}, reply="r" * 10)
        await client.flush(60)

        assert seen == [most]


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_lost_server_is_noticed_at_once_and_subscriptions_resume(server, how):
    async with a_client(server) as client:
        changes, seen = [], []
        client.on_change.append(changes.append)
        client.subscribe("a", lambda message: seen.append(message.payload))
        client.subscribe("silent", lambda message: None)
        waiting = asyncio.ensure_future(client.request("silent", b"", timeout=300))
        await client.flush(20)
        await getattr(server, how)()
        with pytest.raises(Disconnected, match="lost"):
            await asyncio.wait_for(waiting, 60)
        assert not client.connected
        with pytest.raises(Disconnected, match="not connected"):
            client.publish("a", b"into the void")
        await eventually_true(lambda: "Unreachable" in type(client.failure).__name__)
        await server.start()
        await eventually_true(lambda: client.connected, within=60)
        client.publish("a", b"again")
        await client.flush(20)

        assert seen == [b"again"]
        assert changes == [False, True]
        assert client.failure is None


async def test_ten_restarts_leave_one_subscription_each(server):
    async with a_client(server) as client:
        seen = []
        client.subscribe("a", lambda message: seen.append(message.payload))
        for n in range(10):
            await server.restart()
            await eventually_true(lambda: client.connected, within=60)
            await eventually(lambda n=n: _publish(client, str(n).encode()), within=60)
        await client.flush(20)

        assert seen == [str(n).encode() for n in range(10)]


async def _publish(client: NatsClient, payload: bytes) -> None:
    client.publish("a", payload)
    await client.flush(20)


async def test_client_with_limited_reconnects_gives_up_and_closes(server):
    async with a_client(server, max_reconnects=2, reconnect_seconds=0.05) as client:
        await server.kill()
        await asyncio.wait_for(client.wait_closed(), 60)

        assert client.closed
        with pytest.raises(Closed):
            client.publish("a", b"")


async def test_reconnect_pauses_grow_to_configured_maximum(server):
    clock = VirtualClock()
    # With addresses no resolver thread is needed, which would use real time.
    options = NatsOptions(server.url, addresses=(server.host,), connect_seconds=20.0, reconnect_seconds=3.0)
    async with NatsClient(options, clock) as client:
        await server.kill()
        await eventually_true(lambda: not client.connected)
        pauses, last = [], clock.elapsed
        failure = client.failure
        while len(pauses) < 9:
            await clock.advance(0.05)
            await asyncio.sleep(0.002)
            if client.failure is not failure:
                failure = client.failure
                pauses.append(clock.elapsed - last)
                last = clock.elapsed
        assert pauses[0] < 0.5, "the first try comes soon"
        assert max(pauses) < 3.0 * 1.2 + 0.5
        assert sum(pauses[-3:]) > 3 * 3.0 * 0.8 - 0.5, f"the last ones take their time: {pauses}"


async def test_frozen_server_is_dropped_after_two_pings_and_reconnected(server):
    clock = VirtualClock()
    options = NatsOptions(server.url, connect_seconds=20.0, ping_seconds=20.0, reconnect_seconds=1.0)
    async with NatsClient(options, clock) as client:
        for _ in range(5):
            await clock.advance(20)
            await client.flush()
        assert client.connected, "answered pings keep it"
        await server.freeze()
        try:
            await clock.advance(40)
            assert client.connected
            await clock.advance(20)
            await eventually_true(lambda: not client.connected)
            assert "did not respond for 40 s" in str(client.failure)
        finally:
            server.thaw()

        async def assert_restored() -> None:
            await clock.advance(1)
            assert client.connected

        await eventually(assert_restored, within=60)


async def test_client_leaves_server_in_lame_duck_mode(tmp_path):
    """Two servers behind one name, here as two addresses."""
    one, two = (
        NatsServer(tmp_path / name, {"lame_duck_grace_period": "30s", "lame_duck_duration": "60s"})
        for name in "ab"
    )
    two.host, two.port = "127.0.0.2", one.port
    await one.start()
    await two.start()
    try:
        options = NatsOptions(
            one.url, addresses=(one.host, two.host), connect_seconds=20.0, reconnect_seconds=0.2
        )
        async with NatsClient(options, SystemClock()) as client:
            first, changes, seen = client.info.server_id, [], []
            client.on_change.append(changes.append)
            client.subscribe("a", lambda message: seen.append(message.payload))
            await client.flush(20)
            # It connects to either of the two.
            peer = client._connection.transport.get_extra_info("peername")[0]
            (one if peer == one.host else two).signal(signal.SIGUSR2)
            await eventually_true(lambda: client.info.server_id not in ("", first), within=60)

            assert changes == [True], "there was always a connection"
            client.publish("a", b"over there")
            await client.flush(20)
            assert seen == [b"over there"]
    finally:
        await one.kill()
        await two.kill()


async def test_pending_data_is_bounded_when_server_does_not_read(server):
    async with a_client(server, max_pending_bytes=1 << 20) as client:
        await server.freeze()
        try:
            sent = 0
            try:
                while sent < 200:
                    client.publish("a", b"x" * (1 << 19))
                    sent += 1
                    await asyncio.sleep(0)
            except Overloaded:
                pass
            assert sent < 100, f"{sent} halves of a megabyte were taken in"
        finally:
            server.thaw()
        await eventually(lambda: client.flush(20), within=60)


async def test_close_ends_waiting_requests(server):
    async with a_client(server) as client:
        client.subscribe("silent", lambda message: None)
        waiting = asyncio.ensure_future(client.request("silent", b"", timeout=300))
        await client.flush(20)
        await client.close()
        with pytest.raises(Closed):
            await waiting
        await client.close()


async def test_close_without_server_returns_at_once(server):
    async with a_client(server) as client:
        await server.kill()
        await eventually_true(lambda: not client.connected)
        await asyncio.wait_for(client.close(), 20)
        assert client.closed
