"""Requests to a sink on loopback: connections, failures, limits."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kit.clock import VirtualClock
from kit.eventually import eventually_true
from kit.http.sink import Sink, a_sink
from quintet.apis.eventingbackend.addresses import NetworkLimits
from quintet.eventing.dispatcher import sink_client as module
from quintet.eventing.dispatcher.decide.outgoing_event import OutgoingEvent
from quintet.eventing.dispatcher.decide.retry_policy import DeliveryResult
from quintet.eventing.dispatcher.sink_client import SinkClient
from quintet.web.http_client import parse_endpoint

HOST = "orders.shop.svc.cluster.local"
URL = f"http://{HOST}:8080/events?x=y"
EVENT = OutgoingEvent({"ce-id": "1", "ce-source": "/shop", "ce-type": "a.b", "ce-specversion": "1.0"}, b"{}")


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    async with a_sink() as listening:
        yield listening


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def sinks(sink: Sink, clock: VirtualClock) -> AsyncIterator[SinkClient]:
    made = SinkClient(clock, NetworkLimits.of(), {HOST: ("127.0.0.1", sink.port)})
    yield made
    made.close()


async def test_event_is_posted_to_the_path_of_the_url(sinks: SinkClient, sink: Sink):
    assert await sinks.post(URL, EVENT, 5.0) == DeliveryResult(204)
    (got,) = sink.received
    assert got.path == "/events?x=y"
    assert got.headers == EVENT.headers | {"host": f"{HOST}:8080", "content-length": "2"}
    assert got.body == b"{}"


@pytest.mark.parametrize(
    ("url", "want_origin", "want_start"),
    [
        ("http://a.b", ("a.b", 80, False), "POST / HTTP/1.1\r\nhost: a.b\r\n"),
        ("https://a.b/x", ("a.b", 443, True), "POST /x HTTP/1.1\r\nhost: a.b\r\n"),
        ("http://a.b:81?q", ("a.b", 81, False), "POST /?q HTTP/1.1\r\nhost: a.b:81\r\n"),
        ("http://[::1]:81/", ("::1", 81, False), "POST / HTTP/1.1\r\nhost: [::1]:81\r\n"),
    ],
)
def test_url_is_parsed_into_origin_and_request_head(url, want_origin, want_start):
    assert parse_endpoint(url) == (want_origin, want_start)


async def test_connection_is_reused(sinks: SinkClient, sink: Sink):
    for _ in range(3):
        await sinks.post(URL, EVENT, 5.0)
    assert len(sink.connections) == 1


async def test_concurrent_events_use_separate_connections(sinks: SinkClient, sink: Sink):
    sink.hold = asyncio.Event()
    posting = [asyncio.create_task(sinks.post(URL, EVENT, 5.0)) for _ in range(4)]
    await eventually_true(lambda: sink.under_way == 4)
    sink.hold.set()
    assert {(await each).status for each in posting} == {204}
    assert len(sink.connections) == 4


async def test_expired_connection_is_not_reused(sinks: SinkClient, sink: Sink, clock: VirtualClock):
    await sinks.post(URL, EVENT, 5.0)
    (first,) = sink.connections
    clock.elapsed += module.IDLE_SECONDS
    await sinks.post(URL, EVENT, 5.0)
    await eventually_true(lambda: len(sink.connections) == 1 and first not in sink.connections)


async def test_idle_connections_are_closed(sinks: SinkClient, sink: Sink, clock: VirtualClock):
    await sinks.post(URL, EVENT, 5.0)
    await clock.advance(2 * module.IDLE_SECONDS)
    await eventually_true(lambda: not sink.connections)


async def test_closed_idle_connection_is_replaced(sinks: SinkClient, sink: Sink):
    await sinks.post(URL, EVENT, 5.0)
    await sink.stop()
    await sink.start()
    assert await sinks.post(URL, EVENT, 5.0) == DeliveryResult(204)


async def test_unreachable_sink_gives_result_without_status(sinks: SinkClient, sink: Sink):
    await sink.stop()
    answer = await sinks.post(URL, EVENT, 5.0)
    assert (answer.status, answer.is_accepted) == (0, False)
    assert answer.problem.startswith("no response: ")


async def test_slow_sink_times_out(sink: Sink, clock: VirtualClock):
    sink.hold = asyncio.Event()
    hasty = SinkClient(clock, NetworkLimits.of(), {HOST: ("127.0.0.1", sink.port)})
    assert await hasty.post(URL, EVENT, 0.05) == DeliveryResult(0, "no response within 0.05 s")
    sink.hold.set()


async def test_invalid_http_response_gives_result_without_status(clock: VirtualClock):
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 smtp ready\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    made = SinkClient(clock, NetworkLimits.of(), {HOST: ("127.0.0.1", server.sockets[0].getsockname()[1])})
    assert (await made.post(URL, EVENT, 5.0)).status == 0
    server.close()


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "[::1]"])
async def test_sink_with_forbidden_address_gets_no_request(clock: VirtualClock, address: str):
    answer = await SinkClient(clock, NetworkLimits.of()).post(f"http://{address}:1/", EVENT, 5.0)
    assert answer.status == 0
    assert "must not be used" in answer.problem


async def test_unresolvable_host_is_reported(clock: VirtualClock):
    answer = await SinkClient(clock, NetworkLimits.of()).post("http://nowhere.invalid/", EVENT, 10.0)
    assert "cannot resolve host nowhere.invalid" in answer.problem


async def test_response_with_too_long_body_counts_but_closes_connection(sinks: SinkClient, sink: Sink):
    sink.extra = b"\r\ncontent-length: 10000000\r\n\r\n" + b"x" * 200_000
    assert await sinks.post(URL, EVENT, 5.0) == DeliveryResult(204)
    assert await sinks.post(URL, EVENT, 5.0) == DeliveryResult(204)


async def test_idle_connections_to_a_sink_are_bounded(sink: Sink, clock: VirtualClock, monkeypatch):
    monkeypatch.setattr(module, "MAX_IDLE", 2)
    sinks = SinkClient(clock, NetworkLimits.of(), {HOST: ("127.0.0.1", sink.port)})
    sink.hold = asyncio.Event()
    posting = [asyncio.create_task(sinks.post(URL, EVENT, 5.0)) for _ in range(5)]
    await eventually_true(lambda: sink.under_way == 5)
    sink.hold.set()
    await asyncio.gather(*posting)
    await eventually_true(lambda: len(sink.connections) == 2)
    sinks.close()
