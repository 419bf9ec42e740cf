"""Responses that a handler sets later."""

from kit.http.raw import a_server, echo, get
from quintet.web.messages import encode_response
from quintet.web.server import DeferredResponse, Request, Response


async def test_deferred_response_is_sent_when_it_is_set():
    waiting: list[DeferredResponse] = []

    def handler(request: Request) -> DeferredResponse:
        waiting.append(DeferredResponse())
        return waiting[-1]

    async with a_server(handler) as place:
        client = await place.connect()
        client.send(get("/1") + get("/2"))
        await place.wait(1)
        assert len(waiting) == 1, "one request per client is handled at a time"
        waiting[0].set(Response(200, b"first"))
        assert len(waiting) == 2, "the next request is handled immediately"
        waiting[1].set(Response(200, b"second"))
        waiting[1].set(Response(500, b"ignored"))
        assert [(await client.answer()).body for _ in range(2)] == [b"first", b"second"]


async def test_response_that_is_set_already_is_sent_immediately():
    def handler(request: Request) -> DeferredResponse:
        later = DeferredResponse()
        later.set(echo(request))
        return later

    async with a_server(handler) as place:
        client = await place.connect()
        client.send(b"".join(get(f"/{number}") for number in range(100)))
        bodies = [(await client.answer()).body for _ in range(100)]
        assert bodies == [f"GET /{number}? ".encode() for number in range(100)]


async def test_deferred_response_to_disconnected_client_is_ignored():
    waiting: list[DeferredResponse] = []

    def handler(request: Request) -> DeferredResponse:
        waiting.append(DeferredResponse())
        return waiting[-1]

    async with a_server(handler) as place:
        client = await place.connect()
        client.send(get("/"))
        await place.wait(1)
        client.close()
        await place.wait(1)
        waiting[0].set(Response(200, b"too late"))


def test_bodiless_responses_with_and_without_headers_are_encoded_alike():
    for status in (204, 304):
        for close in (False, True):
            plain = encode_response(Response(status), head_only=False, close=close)
            dressed = encode_response(Response(status, headers={"X": "y"}), head_only=False, close=close)
            assert plain == dressed.replace(b"X: y\r\n", b"")
