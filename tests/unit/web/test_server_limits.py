"""Limits for malformed, slow, large and many requests."""

import asyncio

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from kit.clock import settle
from kit.eventually import eventually_true
from kit.http.raw import a_server, echo, get, request
from quintet.web.server import Response, ServerLimits

SMALL = ServerLimits(header_bytes=1000, headers=20, body_bytes=100, connections=3, pipelined=4)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"\x00\x01\x02\r\n\r\n", id="not HTTP"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="TLS ClientHello"),
        pytest.param(b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", id="unknown method"),
        pytest.param(b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", id="unknown version"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="no Host"),
        pytest.param(get("/", "Host: y"), id="two Host headers"),
        pytest.param(get("/", "no colon"), id="header without colon"),
        pytest.param(get("/", "X : y"), id="blank before colon"),
        pytest.param(get("/", "X: a\nY: b\x00"), id="zero byte in header"),
        pytest.param(request("POST", "/", "Content-Length: -1"), id="negative Content-Length"),
        pytest.param(
            request("POST", "/", "Content-Length: 1", "Content-Length: 2") + b"xx",
            id="two Content-Length headers",
        ),
        pytest.param(
            request("POST", "/", "Content-Length: 3", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
            id="Content-Length and chunked",
        ),
        pytest.param(request("POST", "/", "Transfer-Encoding: chunked") + b"zz\r\n", id="invalid chunk size"),
        pytest.param(
            b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", id="chunked in HTTP/1.0"
        ),
        pytest.param(
            request("POST", "/", "Connection: Upgrade", "Upgrade: x", body=b"hi"),
            id="upgrade with body",
        ),
        pytest.param(b"CONNECT other:443 HTTP/1.1\r\nHost: x\r\n\r\n", id="CONNECT"),
        pytest.param(b"GET nowhere HTTP/1.1\r\nHost: x\r\n\r\n", id="invalid target"),
    ],
)
async def test_malformed_request_is_rejected_and_connection_closes(sent):
    handled = []

    def handler(request):
        handled.append(request)
        return Response()

    async with a_server(handler) as place:
        client = await place.connect()
        answer = await client.ask(sent + get("/smuggled"))

        assert (answer.status, answer.headers["connection"]) == (400, "close")
        assert await client.rest() == b""
    assert handled == []


@pytest.mark.parametrize(
    ("sent", "want_status"),
    [
        pytest.param(get("/", *[f"X-{n}: y" for n in range(30)]), 431, id="too many headers"),
        pytest.param(get("/", "X: " + "y" * 2000), 431, id="header too large"),
        pytest.param(get("/" + "y" * 2000), 431, id="target too large"),
        pytest.param(request("POST", "/", body=b"x" * 101), 413, id="body too large"),
        pytest.param(request("POST", "/", "Content-Length: 5000000000"), 413, id="Content-Length too large"),
        pytest.param(
            request("POST", "/", "Expect: 100-continue", "Content-Length: 101"),
            413,
            id="Expect with too large body",
        ),
        pytest.param(
            request("POST", "/", "Transfer-Encoding: chunked")
            + b"32\r\n"
            + b"x" * 50
            + b"\r\n33\r\n"
            + b"x" * 51,
            413,
            id="chunked body too large",
        ),
        pytest.param(request("POST", "/", "Expect: the unexpected"), 417, id="unknown expectation"),
    ],
)
async def test_request_beyond_a_limit_gets_its_status(sent, want_status):
    async with a_server(echo, SMALL) as place:
        client = await place.connect()
        answer = await client.ask(sent)

        assert (answer.status, answer.headers["connection"]) == (want_status, "close")
        assert await client.rest() == b""


async def test_body_of_maximum_size_is_accepted():
    async with a_server(echo, SMALL) as place:
        assert (await (await place.connect()).ask(request("POST", "/", body=b"x" * 100))).status == 200


async def test_endless_header_is_rejected():
    async with a_server(echo, SMALL) as place:
        client = await place.connect()
        client.send(b"GET / HTTP/1.1\r\nX: ")
        for _ in range(40):
            client.send(b"y" * 50)
            await asyncio.sleep(0.001)

        assert (await client.answer()).status == 431


async def test_many_small_requests_in_one_read_are_accepted():
    async with a_server(echo, SMALL) as place:
        client = await place.connect()
        whole = b"".join(get(f"/{n}") for n in range(200))
        client.send(whole[:-5])
        await asyncio.sleep(0.01)
        client.send(whole[-5:])

        assert [(await client.answer()).body for _ in range(200)] == [
            f"GET /{n}? ".encode() for n in range(200)
        ]


async def test_requests_before_a_malformed_one_get_responses_first():
    gate = asyncio.Event()

    async def handler(request):
        await gate.wait()
        return echo(request)

    async with a_server(handler) as place:
        client = await place.connect()
        client.send(get("/good") + b"data\r\n\r\n")
        await asyncio.sleep(0.01)
        gate.set()

        assert (await client.answer()).body == b"GET /good? "
        assert (await client.answer()).status == 400


async def test_rejected_client_that_keeps_sending_gets_the_error_response():
    async with a_server(echo, SMALL) as place:
        client = await place.connect()
        client.send(request("POST", "/", "Content-Length: 10000000"))
        for _ in range(50):
            client.send(b"x" * 10000)
            await asyncio.sleep(0)

        assert (await client.answer()).status == 413
        assert await place.seconds_until_closed(client) <= 5


@pytest.mark.parametrize(
    ("sent", "want_seconds", "want_status"),
    [
        pytest.param(b"", SMALL.head_seconds, b"", id="no data"),
        pytest.param(b"GET / HT", SMALL.head_seconds, b"408", id="incomplete head"),
        pytest.param(
            request("POST", "/", "Content-Length: 9") + b"x", SMALL.body_seconds, b"408", id="incomplete body"
        ),
    ],
)
async def test_slow_client_is_disconnected(sent, want_seconds, want_status):
    async with a_server(echo, SMALL) as place:
        client = await place.connect()
        client.send(sent)
        await eventually_true(lambda: place.server.connections)
        await asyncio.sleep(0.01)
        seconds = await place.seconds_until_closed(client)

        assert want_seconds <= seconds <= want_seconds + 5, "linger and the server's look included"
        assert want_status in await client.rest()


async def test_slow_client_does_not_extend_its_deadline_by_sending_little():
    async with a_server(echo, SMALL) as place:
        client = await place.connect()
        client.send(b"GET / HTTP/1.1\r\n")
        sent = 0
        while not client.closed and sent < 100:
            client.send(b"X: y\r\n" if sent % 9 == 0 else b"")
            sent += 1
            await place.wait(1)
            await asyncio.sleep(0.001)

        assert place.clock.elapsed <= SMALL.head_seconds + 5


async def test_idle_connection_is_closed_after_timeout_and_used_one_is_not():
    async with a_server(echo, SMALL) as place:
        client = await place.connect()
        for _ in range(5):
            assert (await client.ask(get())).status == 200
            await place.wait(SMALL.idle_seconds - 5)
        await client.ask(get())

        assert SMALL.idle_seconds <= await place.seconds_until_closed(client) <= SMALL.idle_seconds + 3
        assert await client.rest() == b""


async def test_slow_handler_does_not_time_out_the_client():
    begun, gate = asyncio.Event(), asyncio.Event()

    async def handler(request):
        begun.set()
        await gate.wait()
        return Response(200, b"at last")

    async with a_server(handler, SMALL) as place:
        client = await place.connect()
        client.send(get() + request("POST", "/", "Content-Length: 5"))
        await begun.wait()
        await place.wait(300)
        gate.set()

        assert (await client.answer()).body == b"at last"


async def test_client_that_does_not_read_is_bounded_and_does_not_block_others():
    handled = []

    def handler(request):
        handled.append(request)
        return Response(200, b"x" * 500_000)

    async with a_server(handler) as place:
        greedy = await place.connect()
        greedy.writer.transport.get_extra_info("socket").setsockopt(1, 8, 4096)
        greedy.reader._transport.pause_reading()
        for _ in range(50):
            greedy.send(get() * 20)
            await asyncio.sleep(0.001)
        made = len(handled)
        assert made < 60, f"{made} of 1000 answers were made for somebody who fetches none"
        other = await place.connect()
        assert (await other.ask(get())).status == 200

        assert await place.seconds_until_closed(other, at_most=40) == 40
        assert len(place.server.connections) == 1, "its patience is over"


async def test_queued_requests_are_bounded():
    gate = asyncio.Event()
    handled = []

    async def handler(request):
        handled.append(request.path)
        await gate.wait()
        return Response()

    async with a_server(handler, SMALL) as place:
        client = await place.connect()
        for n in range(30):
            client.send(get(f"/{n}"))
            await client.writer.drain()
            await asyncio.sleep(0.002)
        (connection,) = place.server.connections
        waiting = len(connection._queue)
        assert waiting <= SMALL.pipelined, f"{waiting} wait"
        gate.set()
        assert [(await client.answer()).status for _ in range(30)] == [200] * 30
    assert handled == [f"/{n}" for n in range(30)]


PIECES = st.lists(st.integers(0, 400), max_size=12).map(sorted)


@settings(max_examples=40)
@given(cuts=PIECES)
def test_responses_are_the_same_however_bytes_are_split(cuts, fresh_loop):
    sent = (
        get("/one", "A: b")
        + request("POST", "/two", body=b"hello")
        + request("POST", "/three", "Transfer-Encoding: chunked")
        + b"3\r\nabc\r\n0\r\n\r\n"
        + get("/four", "Connection: close")
    )

    async def answers():
        async with a_server(echo) as place:
            client = await place.connect()
            start = 0
            for cut in [*cuts, len(sent)]:
                client.send(sent[start:cut])
                start = max(start, cut)
                await settle()
            return [(await client.answer()).body for _ in range(4)]

    assert fresh_loop.run_until_complete(answers()) == [
        b"GET /one? ",
        b"POST /two? hello",
        b"POST /three? abc",
        b"GET /four? ",
    ]


@settings(max_examples=150)
@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_do_not_break_the_server(data, fresh_loop):
    async def survives():
        async with a_server(echo, SMALL) as place:
            client = await place.connect()
            client.send(data)
            if client.writer.can_write_eof():
                client.writer.write_eof()
            said = await client.rest()
            assert said == b"" or said.startswith(b"HTTP/1.1 "), said
            return (await (await place.connect()).ask(get("/"))).status

    assert fresh_loop.run_until_complete(survives()) == 200


async def test_buffered_bodies_of_all_clients_are_bounded():
    gate = asyncio.Event()

    async def handler(request):
        await gate.wait()
        return Response()

    limits = ServerLimits(body_bytes=1000, buffered_bytes=2500)
    async with a_server(handler, limits) as place:
        clients = [await place.connect() for _ in range(5)]
        for client in clients[:2]:
            client.send(request("POST", "/", body=b"x" * 1000))
        await eventually_true(lambda: place.server.buffered == 2000)
        clients[2].send(request("POST", "/", "Content-Length: 900") + b"x" * 400)
        await eventually_true(lambda: place.server.buffered == 2400)
        assert (await clients[3].ask(request("POST", "/", body=b"x" * 500))).status == 503
        assert await clients[3].rest() == b""
        clients[2].close()
        clients[3].close()
        await eventually_true(lambda: place.server.buffered == 2000)
        gate.set()

        assert [(await client.answer()).status for client in clients[:2]] == [200, 200]
        assert place.server.buffered == 0
        assert (await clients[4].ask(request("POST", "/", body=b"x" * 1000))).status == 200


@pytest.mark.parametrize("chunked", [True, False], ids=["in chunks", "of a known length"])
async def test_handler_gets_the_beginning_of_a_too_large_body(chunked):
    seen = []

    def handler(request):
        seen.append((request.body, request.truncated))
        return Response(200, b"read as far as needed")

    limits = ServerLimits(body_bytes=1000, excerpt_bytes=10)
    body = b"0123456789" * 100_000
    async with a_server(handler, limits) as place:
        client = await place.connect()
        if chunked:
            client.send(
                request("POST", "/", "Transfer-Encoding: chunked") + b"f4240\r\n" + body + b"\r\n0\r\n\r\n"
            )
        else:
            client.send(request("POST", "/", body=body) + get("/never"))
        answer = await client.answer()

        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await client.rest() == b""
        assert seen == [(b"0123456789", True)]
        assert place.server.buffered == 0


def head_of(size: int) -> bytes:
    """Return a request head of this many bytes."""
    start = b"GET / HTTP/1.1\r\nHost: a\r\nX:"
    return start + b" " * 40 + b"y" * (size - len(start) - 44) + b"\r\n\r\n"


@pytest.mark.parametrize("split", [None, 1, 500, 4096])
@pytest.mark.parametrize(("size", "want"), [(4096, 200), (4097, 431), (5000, 431)])
async def test_limit_of_a_head_is_its_size_however_it_is_split(size, want, split):
    async with a_server(echo, ServerLimits(header_bytes=4096)) as place:
        client = await place.connect()
        sent = head_of(size)
        for start in range(0, size, split or size):
            client.send(sent[start : start + (split or size)])
            if split:
                await settle()
        assert (await client.answer()).status == want


async def test_second_head_of_a_segment_has_the_same_limit():
    async with a_server(echo, ServerLimits(header_bytes=4096)) as place:
        client = await place.connect()
        client.send(head_of(4000) + head_of(4096) + head_of(4097))
        assert [(await client.answer()).status for _ in range(3)] == [200, 200, 431]


@pytest.mark.parametrize("line", [b"GET /\r\n", b"GET / HTTP/0.9\r\n", b"GET / HTTP/2.0\r\n"])
async def test_request_line_without_supported_version_is_rejected(line):
    async with a_server(echo, ServerLimits()) as place:
        client = await place.connect()
        client.send(line + b"Host: a\r\n\r\n")
        assert (await client.answer()).status in (400, 505)


async def test_bytes_behind_the_last_request_get_no_response():
    async with a_server(echo, ServerLimits()) as place:
        client = await place.connect()
        client.send(b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nnot a request\r\n\r\n")
        assert (await client.answer()).status == 200
        assert await client.rest() == b""
