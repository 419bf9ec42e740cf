"""Which connection a full server evicts, and when it rejects a new one."""

import asyncio

import pytest

from kit.eventually import eventually_true
from kit.http.raw import a_server, echo, get, request
from quintet.web.server import Response, ServerLimits

SMALL = ServerLimits(connections=3)


async def test_full_server_evicts_the_longest_idle_client():
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
        pytest.param(b"", id="no data"),
        pytest.param(b"GET / HTTP/1.1\r\nX", id="incomplete head"),
        pytest.param(request("POST", "/", "Content-Length: 50") + b"x", id="incomplete body"),
    ],
)
async def test_clients_that_hold_connections_do_not_lock_out_others(sent):
    async with a_server(echo, SMALL) as place:
        held = []
        for _ in range(3):
            held.append(await place.connect())
            held[-1].send(sent)
            await place.wait(0.5)
        for _ in range(5):
            assert (await (await place.connect()).ask(get("/", "Connection: close"))).status == 200
        assert len(place.server.connections) <= SMALL.connections


async def test_idle_client_is_evicted_before_a_sending_one():
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


async def test_full_server_with_busy_clients_rejects_with_503():
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
