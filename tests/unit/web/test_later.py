"""Answers that are given later, by a call."""

from kit.http.raw import a_server, echo, get
from quintet.web.messages import encode_response
from quintet.web.server import DeferredResponse, Request, Response


async def test_an_answer_given_later_is_sent_when_it_is_given():
    waiting: list[DeferredResponse] = []

    def handler(request: Request) -> DeferredResponse:
        waiting.append(DeferredResponse())
        return waiting[-1]

    async with a_server(handler) as place:
        client = await place.connect()
        client.send(get("/1") + get("/2"))
        await place.wait(1)
        assert len(waiting) == 1, "one request of a client at a time"
        waiting[0].set(Response(200, b"first"))
        assert len(waiting) == 2, "the next one follows at once"
        waiting[1].set(Response(200, b"second"))
        waiting[1].set(Response(500, b"nobody hears this"))
        assert [(await client.answer()).body for _ in range(2)] == [b"first", b"second"]


async def test_an_answer_that_is_there_already_is_sent_at_once():
    def handler(request: Request) -> DeferredResponse:
        later = DeferredResponse()
        later.set(echo(request))
        return later

    async with a_server(handler) as place:
        client = await place.connect()
        client.send(b"".join(get(f"/{number}") for number in range(100)))
        bodies = [(await client.answer()).body for _ in range(100)]
        assert bodies == [f"GET /{number}? ".encode() for number in range(100)]


async def test_an_answer_for_a_client_that_is_gone_reaches_nobody_and_harms_nobody():
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


def test_answers_without_a_body_are_the_same_whether_they_have_headers_or_not():
    for status in (204, 304):
        for close in (False, True):
            plain = encode_response(Response(status), head_only=False, close=close)
            dressed = encode_response(Response(status, headers={"X": "y"}), head_only=False, close=close)
            assert plain == dressed.replace(b"X: y\r\n", b"")
