"""What a client may cost: malformed, slow, large and many."""

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
        pytest.param(b"\x00\x01\x02\r\n\r\n", id="no HTTP at all"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="a TLS hello"),
        pytest.param(b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", id="a method that does not exist"),
        pytest.param(b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", id="a version that does not exist"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="no host"),
        pytest.param(get("/", "Host: y"), id="two hosts"),
        pytest.param(get("/", "no colon"), id="a header without a colon"),
        pytest.param(get("/", "X : y"), id="a blank before the colon"),
        pytest.param(get("/", "X: a\nY: b\x00"), id="a zero byte in a header"),
        pytest.param(request("POST", "/", "Content-Length: -1"), id="a negative length"),
        pytest.param(
            request("POST", "/", "Content-Length: 1", "Content-Length: 2") + b"xx", id="two lengths"
        ),
        pytest.param(
            request("POST", "/", "Content-Length: 3", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
            id="a length and chunks: two opinions on the end",
        ),
        pytest.param(request("POST", "/", "Transfer-Encoding: chunked") + b"zz\r\n", id="a chunk of no size"),
        pytest.param(
            b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", id="chunks in HTTP/1.0"
        ),
        pytest.param(
            request("POST", "/", "Connection: Upgrade", "Upgrade: x", body=b"hi"),
            id="a body before an upgrade",
        ),
        pytest.param(b"CONNECT other:443 HTTP/1.1\r\nHost: x\r\n\r\n", id="a request for a tunnel"),
        pytest.param(b"GET nowhere HTTP/1.1\r\nHost: x\r\n\r\n", id="a target that is no path"),
    ],
)
async def test_what_is_malformed_is_refused_and_the_connection_ends(sent):
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
        pytest.param(get("/", *[f"X-{n}: y" for n in range(30)]), 431, id="more headers than allowed"),
        pytest.param(get("/", "X: " + "y" * 2000), 431, id="a header larger than allowed"),
        pytest.param(get("/" + "y" * 2000), 431, id="a target larger than allowed"),
        pytest.param(request("POST", "/", body=b"x" * 101), 413, id="a body larger than allowed"),
        pytest.param(
            request("POST", "/", "Content-Length: 5000000000"), 413, id="a body that is only announced"
        ),
        pytest.param(
            request("POST", "/", "Expect: 100-continue", "Content-Length: 101"),
            413,
            id="a body that asks before",
        ),
        pytest.param(
            request("POST", "/", "Transfer-Encoding: chunked")
            + b"32\r\n"
            + b"x" * 50
            + b"\r\n33\r\n"
            + b"x" * 51,
            413,
            id="chunks that grow beyond the limit",
        ),
        pytest.param(request("POST", "/", "Expect: the unexpected"), 417, id="an expectation nobody knows"),
    ],
)
async def test_what_is_too_much_is_refused_with_its_own_status(sent, want_status):
    async with a_server(echo, SMALL) as place:
        client = await place.connect()
        answer = await client.ask(sent)

        assert (answer.status, answer.headers["connection"]) == (want_status, "close")
        assert await client.rest() == b""


async def test_a_body_of_just_the_allowed_size_is_taken():
    async with a_server(echo, SMALL) as place:
        assert (await (await place.connect()).ask(request("POST", "/", body=b"x" * 100))).status == 200


async def test_a_header_that_never_ends_is_cut_off():
    async with a_server(echo, SMALL) as place:
        client = await place.connect()
        client.send(b"GET / HTTP/1.1\r\nX: ")
        for _ in range(40):
            client.send(b"y" * 50)
            await asyncio.sleep(0.001)

        assert (await client.answer()).status == 431


async def test_many_small_requests_in_one_piece_are_not_taken_for_one_large_head():
    async with a_server(echo, SMALL) as place:
        client = await place.connect()
        whole = b"".join(get(f"/{n}") for n in range(200))
        client.send(whole[:-5])
        await asyncio.sleep(0.01)
        client.send(whole[-5:])

        assert [(await client.answer()).body for _ in range(200)] == [
            f"GET /{n}? ".encode() for n in range(200)
        ]


async def test_what_came_before_a_malformed_request_is_answered_first():
    gate = asyncio.Event()

    async def handler(request):
        await gate.wait()
        return echo(request)

    async with a_server(handler) as place:
        client = await place.connect()
        client.send(get("/good") + b"rubbish\r\n\r\n")
        await asyncio.sleep(0.01)
        gate.set()

        assert (await client.answer()).body == b"GET /good? "
        assert (await client.answer()).status == 400


async def test_a_refused_client_that_goes_on_sending_still_reads_why():
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
        pytest.param(b"", SMALL.head_seconds, b"", id="nothing"),
        pytest.param(b"GET / HT", SMALL.head_seconds, b"408", id="half a head"),
        pytest.param(
            request("POST", "/", "Content-Length: 9") + b"x", SMALL.body_seconds, b"408", id="half a body"
        ),
    ],
)
async def test_a_client_that_sends_too_slowly_is_let_go(sent, want_seconds, want_status):
    async with a_server(echo, SMALL) as place:
        client = await place.connect()
        client.send(sent)
        await eventually_true(lambda: place.server.connections)
        await asyncio.sleep(0.01)
        seconds = await place.seconds_until_closed(client)

        assert want_seconds <= seconds <= want_seconds + 5, "linger and the server's look included"
        assert want_status in await client.rest()


async def test_a_slow_client_gains_no_time_by_sending_a_little():
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


async def test_an_idle_connection_is_closed_after_its_time_and_a_used_one_is_not():
    async with a_server(echo, SMALL) as place:
        client = await place.connect()
        for _ in range(5):
            assert (await client.ask(get())).status == 200
            await place.wait(SMALL.idle_seconds - 5)
        await client.ask(get())

        assert SMALL.idle_seconds <= await place.seconds_until_closed(client) <= SMALL.idle_seconds + 3
        assert await client.rest() == b""


async def test_work_that_takes_long_is_not_taken_for_a_slow_client():
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


async def test_a_client_that_does_not_read_holds_up_only_itself_and_little_memory():
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


async def test_requests_in_line_are_bounded():
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
def test_however_the_bytes_are_split_the_answers_are_the_same(cuts, fresh_loop):
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
@given(rubbish=st.binary(max_size=300))
def test_no_rubbish_breaks_or_hangs_the_server(rubbish, fresh_loop):
    async def survives():
        async with a_server(echo, SMALL) as place:
            client = await place.connect()
            client.send(rubbish)
            if client.writer.can_write_eof():
                client.writer.write_eof()
            said = await client.rest()
            assert said == b"" or said.startswith(b"HTTP/1.1 "), said
            return (await (await place.connect()).ask(get("/"))).status

    assert fresh_loop.run_until_complete(survives()) == 200


async def test_bodies_of_all_clients_together_are_bounded_and_given_back():
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
async def test_a_handler_may_refuse_a_large_body_itself_by_its_beginning(chunked):
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
