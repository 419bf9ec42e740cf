"""The publisher proxy with broken, slow, greedy and hostile clients: defined responses and constant memory.

The tests compare the memory of the process before and after; the allowed growth is far below what was sent.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kit.eventually import eventually
from kit.nats.publishers import Publisher, a_publisher, a_stream, binary, post, settings
from kit.nats.server import NatsServer, a_nats_server

MAY_STAY_MB = 12


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NatsServer]:
    async with a_nats_server(tmp_path_factory.mktemp("nats")) as running, a_stream(running):
        yield running


@contextlib.asynccontextmanager
async def a_warm_publisher(server: NatsServer) -> AsyncIterator[Publisher]:
    """Run a proxy that has already served requests."""
    async with a_publisher(settings(server.url)) as running:
        await running.ready()
        for number in range(100):
            await running.ask(binary(f"warm-{number}"))
        yield running


async def assert_still_serves(publisher: Publisher) -> None:
    assert (await publisher.ask(binary("after"))).status == 204, "it must serve on"


@pytest.fixture(scope="module")
async def shared_publisher(server: NatsServer) -> AsyncIterator[Publisher]:
    async with a_warm_publisher(server) as running:
        yield running


@pytest.fixture
async def publisher(shared_publisher: Publisher) -> AsyncIterator[Publisher]:
    """A shared proxy, for tests that leave no trace."""
    yield shared_publisher
    await assert_still_serves(shared_publisher)


@pytest.fixture
async def own_publisher(server: NatsServer) -> AsyncIterator[Publisher]:
    """A new proxy, for tests whose memory may grow up to a limit."""
    async with a_warm_publisher(server) as running:
        yield running
        await assert_still_serves(running)


async def send_raw(publisher: Publisher, data: bytes) -> bytes:
    """Send bytes and return everything that comes back until the proxy closes the connection."""
    async with publisher.client() as client:
        client.send(data)
        with contextlib.suppress(ConnectionError):
            client.writer.write_eof()
        return await client.rest()


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(b"nonsense\r\n\r\n", b"HTTP/1.1 400 ", id="not HTTP"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01", b"HTTP/1.1 400 ", id="TLS on a plain port"),
        pytest.param(b"POST /publish HTTP/9.9\r\n\r\n", b"HTTP/1.1 400 ", id="invalid HTTP version"),
        pytest.param(post(b"").replace(b"Host: x\r\n", b""), b"HTTP/1.1 400 ", id="missing Host header"),
        pytest.param(post(b"").replace(b"Content-Length: 0", b"Content-Length: -5"), b"HTTP/1.1 400 ", id="a negative length"),
        pytest.param(post(b"").replace(b"Content-Length: 0", b"Content-Length: 0\r\nContent-Length: 9"), b"HTTP/1.1 400 ", id="two Content-Length headers"),
        pytest.param(post(b"").replace(b"Content-Length: 0", b"Content-Length: 3\r\nTransfer-Encoding: chunked"), b"HTTP/1.1 400 ", id="Content-Length and chunked"),
        pytest.param(post(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"zz\r\n", b"HTTP/1.1 400 ", id="chunk without size"),
        pytest.param(b"POST /publish HTTP/1.1\r\nHost: x\r\nce id: 7\r\n\r\n", b"HTTP/1.1 400 ", id="space in a header name"),
        pytest.param(b"POST /publish HTTP/1.1\r\nHost: x\r\nce-id: a\x00b\r\n\r\n", b"HTTP/1.1 400 ", id="a zero byte"),
        pytest.param(b"POST /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", b"HTTP/1.1 431 ", id="endless path"),
        pytest.param(b"POST /publish HTTP/1.1\r\nHost: x\r\n" + b"".join(b"ce-x%d: y\r\n" % number for number in range(500)) + b"\r\n", b"HTTP/1.1 431 ", id="500 headers"),
        pytest.param(b"POST /publish HTTP/1.1\r\nHost: x\r\nce-x: " + b"y" * 1_000_000 + b"\r\n\r\n", b"HTTP/1.1 431 ", id="a header of a megabyte"),
        pytest.param(post(b"x" * 10_000_000), b"HTTP/1.1 413 ", id="a body of 10 MB"),
        pytest.param(post(b"").replace(b"Content-Length: 0", b"Content-Length: 99999999999999999999"), b"HTTP/1.1 400 ", id="Content-Length overflow"),
    ],
)  # fmt: skip
async def test_malformed_request_is_rejected_without_memory_growth(
    publisher: Publisher, data: bytes, want: bytes
):
    before = publisher.rss_mb
    for _ in range(20):
        found = await send_raw(publisher, data)
        # An empty response means that the request was rejected while the client was still sending.
        assert found.startswith(want) or (not found and len(data) > 100_000), found[:200]
    assert publisher.rss_mb - before < MAY_STAY_MB


async def test_large_body_is_rejected_before_sending_with_expect_continue(publisher: Publisher):
    request = post(b"").replace(b"Content-Length: 0", b"Content-Length: 10000000\r\nExpect: 100-continue")
    assert (await publisher.ask(request)).status == 413


async def test_chunked_body_has_same_size_limit(publisher: Publisher):
    before = publisher.rss_mb
    head = post(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    found = await send_raw(publisher, head + chunk * 2500)
    assert found.startswith(b"HTTP/1.1 413 "), found[:100]
    assert publisher.rss_mb - before < MAY_STAY_MB


async def test_slow_clients_do_not_block_others(own_publisher: Publisher):
    publisher = own_publisher
    before = publisher.rss_mb
    async with contextlib.AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(publisher.client()) for _ in range(300)]
        for number, client in enumerate(slow):
            client.send(binary()[: 10 + number])
        for _ in range(50):
            assert (await publisher.ask(binary("quick"))).status == 204
        assert publisher.rss_mb - before < 2 * MAY_STAY_MB


async def test_unfinished_bodies_use_only_received_bytes(own_publisher: Publisher):
    publisher = own_publisher
    before = publisher.rss_mb
    unfinished = binary("slow", b"x" * 65_000)[:-1]
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(500):
            client = await stack.enter_async_context(publisher.client())
            client.send(unfinished)
            await client.writer.drain()
        assert (await publisher.ask(binary("quick"))).status == 204
        assert publisher.rss_mb - before < 2 * 500 * len(unfinished) / 2**20


async def test_clients_that_hold_all_connections_do_not_lock_out_others(publisher: Publisher):
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(1000):
            client = await stack.enter_async_context(publisher.client())
            assert (await client.ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")).status == 200
        for _ in range(10):
            assert (await publisher.ask(binary())).status == 204


async def test_client_that_never_reads_responses_does_not_fill_memory(own_publisher: Publisher):
    publisher = own_publisher
    before = publisher.rss_mb
    async with publisher.client() as client:
        for _ in range(2000):
            client.send(binary("", b"x" * 1000))
            await asyncio.sleep(0)
        assert (await publisher.ask(binary())).status == 204
        assert publisher.rss_mb - before < MAY_STAY_MB


@pytest.mark.parametrize(
    ("known", "new"), [(1200, 1200), pytest.param(2000, 6000, marks=pytest.mark.exhaustive)]
)
async def test_unlimited_new_event_types_do_not_fill_memory(own_publisher: Publisher, known: int, new: int):
    publisher = own_publisher

    async def publish(first: int, count: int) -> None:
        async with publisher.client() as client:
            for number in range(first, first + count):
                answer = await client.ask(binary(number, type=f"order.v{number}", source=f"/shop/{number}"))
                assert answer.status == 204, answer

    await asyncio.gather(*(publish(1000 * number, known // 4) for number in range(4)))
    before = publisher.rss_mb
    await asyncio.gather(*(publish(10_000 + 5000 * number, new // 4) for number in range(4)))
    assert publisher.rss_mb - before < MAY_STAY_MB
    shown = await publisher.metrics()
    assert shown.count("eventing_epp_event_type_published_total{") <= 1001
    assert 'event_type="other"' in shown


async def test_frozen_nats_server_returns_504_with_bounded_waiting_requests(tmp_path: Path):
    async with (
        a_nats_server(tmp_path / "nats") as server,
        a_stream(server),
        a_publisher(settings(server.url, seconds=1.0)) as publisher,
    ):
        await publisher.ready()
        await publisher.ask(binary())
        before = publisher.rss_mb
        await server.freeze()
        try:
            answers = await asyncio.gather(
                *(publisher.ask(binary(number, b"x" * 60_000)) for number in range(400))
            )
        finally:
            server.thaw()
        statuses = {answer.status for answer in answers}
        assert statuses <= {504, 503}, statuses
        assert 504 in statuses
        assert publisher.rss_mb - before < 40, "what waits is bounded"
        await eventually(lambda: _assert_stored(publisher))


async def _assert_stored(publisher: Publisher) -> None:
    answer = await publisher.ask(binary("again"))
    assert answer.status == 204, answer
