"""Bytes after the head that are not body: trailers, chunk extensions, the next head."""

import asyncio

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from kit.clock import settle
from kit.http.raw import a_server, echo, get, request
from quintet.web.server import ServerLimits

CHUNKED = request("POST", "/", "Transfer-Encoding: chunked")


@pytest.mark.parametrize("body_bytes", [0, 100])
@pytest.mark.parametrize(
    ("start", "piece"),
    [
        pytest.param(b"0\r\nX: ", b"y" * 500, id="trailer value"),
        pytest.param(b"0\r\n", b"y" * 500, id="trailer name"),
        pytest.param(b"0\r\n", b"X: y\r\n" * 100, id="trailers"),
        pytest.param(b"0;", b"y" * 500, id="chunk extension"),
    ],
)
async def test_endless_trailers_are_rejected(start, piece, body_bytes):
    async with a_server(echo, ServerLimits(header_bytes=1000, body_bytes=body_bytes)) as place:
        client = await place.connect()
        client.send(CHUNKED + start)
        sent = 0
        while not client.closed and sent < 200_000:
            client.send(piece)
            sent += len(piece)
            await place.wait(0)
            await asyncio.sleep(0.001)
        assert sent < 200_000, "all of it was read"
        assert (await client.answer()).status == 431


async def test_many_small_chunks_do_not_count_as_headers():
    limits = ServerLimits(header_bytes=1000, body_bytes=10_000)
    async with a_server(echo, limits) as place:
        client = await place.connect()
        client.send(CHUNKED)
        for _ in range(500):
            client.send(b"1\r\n")
            await settle()
            client.send(b"x\r\n")
            await settle()
        client.send(b"0\r\nX: y\r\n\r\n")
        assert (await client.answer()).body == b"POST /? " + b"x" * 500
        assert (await client.ask(get("/next"))).body == b"GET /next? "


@settings(max_examples=150, deadline=None)
@given(
    head=st.integers(0, 900),
    trailers=st.lists(st.integers(1, 1500), max_size=6),
    cuts=st.lists(st.integers(1, 3000), max_size=12),
)
def test_trailers_are_rejected_only_if_too_large_however_they_are_split(head, trailers, cuts, fresh_loop):
    """The limit counts the head and the trailers; a margin of a request line and names is left out."""
    lines = [f"T{number}: ".encode() + b"y" * size for number, size in enumerate(trailers)]
    sent = request("POST", "/", "Transfer-Encoding: chunked", "X: " + "y" * head)
    sent += b"4\r\nbody\r\n0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"
    size = sum(trailers)

    async def story() -> None:
        async with a_server(echo, ServerLimits(header_bytes=1500)) as place:
            client = await place.connect()
            start = 0
            for cut in (*sorted(cuts), len(sent)):
                client.send(sent[start:cut])
                start = max(start, cut)
                await settle()
            status = (await client.answer()).status
            if head + size < 1200:
                assert status == 200
            if size > 1500:
                assert status == 431

    fresh_loop.run_until_complete(story())


async def test_pipelined_request_after_a_large_body_is_accepted():
    async with a_server(echo, ServerLimits(header_bytes=1000, body_bytes=10_000)) as place:
        client = await place.connect()
        sent = request("POST", "/a", body=b"x" * 5000) + get("/b")
        client.send(sent[:20])
        await settle()
        client.send(sent[20:-10])  # the rest of a head, a body, and a part of the next head
        await settle()
        client.send(sent[-10:])
        assert [(await client.answer()).status for _ in range(2)] == [200, 200]
