"""Responses of the server, their order, and shutdown."""

import asyncio

import pytest

from kit.clock import settle
from kit.http.raw import a_server, echo, get, request
from quintet.web.server import Response, ServerLimits


async def test_response_is_that_of_the_handler():
    def handler(request):
        return Response(201, b"made", "text/special", {"X-One": "1"})

    async with a_server(handler) as place:
        answer = await (await place.connect()).ask(get("/things?a=b"))

    assert (answer.status, answer.body) == (201, b"made")
    assert answer.headers == {"x-one": "1", "content-type": "text/special", "content-length": "4"}


@pytest.mark.parametrize(
    ("target", "want"),
    [
        pytest.param("/a/b?c=d&e", b"GET /a/b?c=d&e ", id="path and query"),
        pytest.param("/a%20b", b"GET /a b? ", id="percent-encoded path"),
        pytest.param("http://host:80/a?b", b"GET /a?b ", id="absolute URL"),
    ],
)
async def test_target_is_split_into_path_and_query(target, want):
    async with a_server(echo) as place:
        assert (await (await place.connect()).ask(get(target))).body == want


async def test_headers_have_lower_case_names_and_joined_values():
    seen = []

    def handler(request):
        seen.append(dict(request.headers))
        return Response(204)

    async with a_server(handler) as place:
        answer = await (await place.connect()).ask(get("/", "X-A: 1", "x-a: 2", "CE-Id: é"))

    assert answer.status == 204
    assert "content-length" not in answer.headers, "a response without a body has no Content-Length"
    assert seen == [{"host": "x", "x-a": "1, 2", "ce-id": "é"}]


async def test_connection_serves_several_requests():
    async with a_server(echo) as place:
        client = await place.connect()
        answers = [(await client.ask(request("POST", f"/{n}", body=b"x" * n))).body for n in range(1, 4)]

    assert answers == [b"POST /1? x", b"POST /2? xx", b"POST /3? xxx"]


async def test_head_response_has_no_body():
    async with a_server(echo) as place:
        client = await place.connect()
        answer = await client.ask(request("HEAD", "/a"), bodiless=True)
        after = await client.ask(get("/b"))

    assert answer.headers["content-length"] == str(len(b"HEAD /a? "))
    assert after.body == b"GET /b? "


async def test_pipelined_requests_get_responses_in_order():
    gates = {path: asyncio.Event() for path in ("/1", "/2", "/3")}

    async def handler(request):
        await gates[request.path].wait()
        return Response(200, request.path.encode())

    async with a_server(handler) as place:
        client = await place.connect()
        client.send(get("/1") + get("/2") + get("/3"))
        for path in ("/3", "/2", "/1"):
            gates[path].set()
            await settle()

        assert [(await client.answer()).body for _ in range(3)] == [b"/1", b"/2", b"/3"]


async def test_handler_may_return_a_future():
    answer = asyncio.get_running_loop().create_future()

    async with a_server(lambda request: answer) as place:
        client = await place.connect()
        client.send(get())
        asyncio.get_running_loop().call_later(0.01, answer.set_result, Response(202))

        assert (await client.answer()).status == 202


async def test_chunked_body_is_joined_and_trailers_are_ignored():
    seen = []

    def handler(request):
        seen.append((request.body, dict(request.headers)))
        return Response()

    body = b"3\r\nabc\r\n2;note=x\r\nde\r\n0\r\nX-Role: admin\r\n\r\n"
    async with a_server(handler) as place:
        client = await place.connect()
        client.send(request("POST", "/", "Transfer-Encoding: chunked") + body + get("/after"))
        await client.answer()
        await client.answer()

    assert seen[0] == (b"abcde", {"host": "x", "transfer-encoding": "chunked"})
    assert seen[1][0] == b""


async def test_request_may_arrive_in_single_bytes():
    async with a_server(echo) as place:
        client = await place.connect()
        for byte in request("POST", "/slow", body=b"body"):
            client.send(bytes([byte]))
            await asyncio.sleep(0)

        assert (await client.answer()).body == b"POST /slow? body"


async def test_expect_100_continue_gets_continue_before_the_body():
    async with a_server(echo) as place:
        client = await place.connect()
        client.send(request("POST", "/", "Expect: 100-continue", "Content-Length: 2"))

        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await client.ask(b"ok")).body == b"POST /? ok"


async def test_continue_is_sent_after_earlier_responses():
    gate = asyncio.Event()

    async def handler(request):
        await gate.wait()
        return echo(request)

    async with a_server(handler) as place:
        client = await place.connect()
        client.send(get("/first") + request("POST", "/", "Expect: 100-continue", "Content-Length: 2"))
        await asyncio.sleep(0.01)
        gate.set()

        assert (await client.answer()).body == b"GET /first? "
        assert (await client.answer()).status == 100
        assert (await client.ask(b"ok")).body == b"POST /? ok"


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(get("/", "Connection: close"), id="Connection: close"),
        pytest.param(b"GET / HTTP/1.0\r\n\r\n", id="HTTP/1.0"),
        pytest.param(get("/", "Connection: Upgrade", "Upgrade: h2c"), id="upgrade"),
    ],
)
async def test_connection_closes_after_response(asked):
    async with a_server(echo) as place:
        client = await place.connect()
        answer = await client.ask(asked)

        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await client.rest() == b""


async def test_response_with_connection_close_closes_connection():
    async with a_server(lambda request: Response(204, headers={"Connection": "close"})) as place:
        client = await place.connect()
        answer = await client.ask(get())

        assert (answer.status, answer.headers) == (204, {"connection": "close"})
        assert await client.rest() == b""


async def test_half_closed_client_gets_its_response():
    gate = asyncio.Event()

    async def handler(request):
        await gate.wait()
        return Response(200, b"late")

    async with a_server(handler) as place:
        client = await place.connect()
        client.send(get())
        client.writer.write_eof()
        await asyncio.sleep(0.01)
        gate.set()

        assert (await client.answer()).body == b"late"
        assert await client.rest() == b""


@pytest.mark.parametrize(
    "kind", ["raises immediately", "raises later", "returns invalid header", "is cancelled"]
)
async def test_failing_handler_gives_500_without_details_and_connection_continues(kind, caplog):
    async def later(request):
        raise ValueError("secret")

    async def cancelled(request):
        raise asyncio.CancelledError

    def handler(request):
        if request.path == "/good":
            return Response(200, b"fine")
        if kind == "raises immediately":
            raise ValueError("secret")
        if kind == "returns invalid header":
            return Response(200, b"", headers={"X": "a\r\nSet-Cookie: b"})
        return later(request) if kind == "raises later" else cancelled(request)

    async with a_server(handler) as place:
        client = await place.connect()
        bad, good = await client.ask(get("/bad")), await client.ask(get("/good"))

    assert bad.status in (500, 503)
    assert b"secret" not in bad.body
    assert (good.status, good.body) == (200, b"fine")


async def test_stop_finishes_requests_and_accepts_no_connections():
    begun, gate = asyncio.Event(), asyncio.Event()

    async def handler(request):
        if request.path == "/slow":
            begun.set()
            await gate.wait()
        return Response(200, b"finished")

    async with a_server(handler) as place:
        idle, busy = await place.connect(), await place.connect()
        await idle.ask(get())
        busy.send(get("/slow"))
        await begun.wait()
        stopping = asyncio.ensure_future(place.server.stop(grace=30))
        assert await idle.rest() == b"", "idle clients are closed"
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await place.connect()
        assert not stopping.done()
        gate.set()

        answer = await busy.answer()
        assert (answer.body, answer.headers["connection"]) == (b"finished", "close")
        await asyncio.wait_for(stopping, 30)


async def test_drain_closes_each_connection_after_its_next_response():
    async with a_server(echo) as place:
        old, idle = await place.connect(), await place.connect()
        assert "connection" not in (await old.ask(get("/1"))).headers
        place.server.drain()
        last = await old.ask(get("/2"))
        assert (last.body, last.headers["connection"]) == (b"GET /2? ", "close")
        assert await old.rest() == b""
        new = await place.connect()
        assert (await new.ask(get("/3"))).body == b"GET /3? ", "new clients still get a response"
        assert (await idle.ask(get("/4"))).body == b"GET /4? ", "idle clients are not disconnected"


async def test_stop_aborts_requests_after_grace_period():
    begun = asyncio.Event()

    async def handler(request):
        begun.set()
        await asyncio.Event().wait()

    async with a_server(handler) as place:
        client = await place.connect()
        client.send(get())
        await begun.wait()
        stopping = asyncio.ensure_future(place.server.stop(grace=5))
        await place.wait(4)
        assert not stopping.done()
        await place.wait(2)
        await asyncio.wait_for(stopping, 30)
        assert await client.rest() == b""
    for task in asyncio.all_tasks():
        if "_await" in repr(task):
            task.cancel()


async def test_server_handles_many_clients():
    async with a_server(echo, ServerLimits(connections=60)) as place:
        clients = [await place.connect() for _ in range(50)]
        answers = await asyncio.gather(*(c.ask(get(f"/{n}")) for n, c in enumerate(clients)))

    assert [answer.body for answer in answers] == [f"GET /{n}? ".encode() for n in range(50)]
