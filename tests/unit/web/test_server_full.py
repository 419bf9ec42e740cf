"""Who makes room, and who is refused, where a server has as many clients as it may have."""

import asyncio

import pytest

from kit.eventually import eventually_true
from kit.http.raw import a_server, echo, get, request
from quintet.web.server import Response, ServerLimits

SMALL = ServerLimits(connections=3)


async def test_where_it_is_full_the_client_that_has_been_idle_longest_makes_room():
    async with a_server(echo, SMALL) as place:
        clients = [await place.connect() for _ in range(3)]
        for client in (clients[1], clients[0], clients[2]):
            await client.ask(get())
            await place.wait(1)
        newcomer = await place.connect()
        assert (await newcomer.ask(get())).status == 200
        await eventually_true(lambda: clients[1].closed)
        for client in (clients[0], clients[2]):
            assert (await client.ask(get())).status == 200


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="say nothing"),
        pytest.param(b"GET / HTTP/1.1\r\nX", id="never finish a head"),
        pytest.param(request("POST", "/", "Content-Length: 50") + b"x", id="never finish a body"),
    ],
)
async def test_clients_that_are_held_open_keep_nobody_out(sent):
    async with a_server(echo, SMALL) as place:
        held = []
        for _ in range(3):
            held.append(await place.connect())
            held[-1].send(sent)
            await place.wait(0.5)
        for _ in range(5):
            assert (await (await place.connect()).ask(get("/", "Connection: close"))).status == 200
        assert len(place.server.connections) <= SMALL.connections


async def test_an_idle_client_makes_room_before_one_that_is_sending():
    async with a_server(echo, SMALL) as place:
        sending = await place.connect()
        sending.send(b"GET /slow HTTP/1.1\r\n")
        await place.wait(1)
        idle = [await place.connect() for _ in range(2)]
        for client in idle:
            await client.ask(get())
            await place.wait(1)
        assert (await (await place.connect()).ask(get())).status == 200
        await eventually_true(lambda: idle[0].closed)
        assert (await sending.ask(b"Host: x\r\n\r\n")).status == 200


async def test_where_all_are_worked_for_one_client_too_many_is_told_so():
    gate = asyncio.Event()

    async def slow(request):
        await gate.wait()
        return Response()

    async with a_server(slow, SMALL) as place:
        clients = [await place.connect() for _ in range(3)]
        for client in clients:
            client.send(get())
        await place.wait(1)
        assert (await (await place.connect()).answer()).status == 503
        gate.set()
        assert [(await client.answer()).status for client in clients] == [200] * 3
        assert (await (await place.connect()).ask(get())).status == 200
