"""Tests of the manager against a local server that responds late, or not at all."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable

import aiohttp
import msgspec
import pytest

from kit.background import run_in_background
from kit.clock import VirtualClock
from kit.eventually import eventually_true
from quintet.apis.meta import Object, ObjectKey, ObjectMeta, Resource
from quintet.clock import SystemClock
from quintet.kube.client import Client
from quintet.kube.config import ClusterConfig
from quintet.kube.errors import DeadlineExceeded
from quintet.kube.transport import Transport
from quintet.observe.health import HealthServer
from quintet.runtime.cache import Store
from quintet.runtime.controller import Controller
from quintet.runtime.events import Recorder
from quintet.runtime.leader import Terms
from quintet.runtime.manager import Manager
from quintet.runtime.ownwrites import OwnWrites
from quintet.runtime.queue import WorkQueue
from quintet.runtime.reconcile import Result
from quintet.runtime.watch import Selection

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
LEASE = ObjectKey("system", "quintet")


class Server:
    """A server with one Lease; requests that `hangs` selects get no response, or after `seconds` only."""

    def __init__(self, hangs: Callable[[str, str], bool], seconds: float | None = None) -> None:
        self._hangs = hangs
        self._seconds = seconds
        self._lease: dict[str, object] | None = None
        self.hanging = 0
        self.renewals = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                method, path, _ = head.split(" ", 2)
                length = [
                    line[15:] for line in head.split("\r\n") if line.lower().startswith("content-length")
                ]
                body = await reader.readexactly(int(length[0]) if length else 0)
                if self._hangs(method, path):
                    self.hanging += 1
                    if self._seconds is None:
                        await reader.read()  # until the client disconnects
                        break
                    await asyncio.sleep(self._seconds)
                    self.hanging -= 1
                leases = path.rpartition("/leases")[1]
                status, answer = self._answer(method, body) if leases else (200, {})
                text = json.dumps(answer).encode()
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
        writer.close()

    def _answer(self, method: str, body: bytes) -> tuple[int, dict[str, object]]:
        if method == "GET" and self._lease is None:
            return 404, {"code": 404, "reason": "NotFound"}
        if body:
            self._lease = json.loads(body)
            self.renewals += 1
            self._lease["metadata"]["resourceVersion"] = str(self.renewals)  # type: ignore[index]
        return 200, self._lease or {}


@contextlib.asynccontextmanager
async def serving(server: Server) -> AsyncIterator[ClusterConfig]:
    listener = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    try:
        yield ClusterConfig(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    finally:
        listener.close()


def creates_config_maps(method: str, path: str) -> bool:
    return method == "POST" and "configmaps" in path


async def create(client: Client, number: int) -> None:
    await client.create(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}}, Object, namespace="ns")


async def test_lease_is_acquired_while_controllers_use_every_connection():
    server = Server(creates_config_maps)
    async with serving(server) as config, Transport(config, max_requests=4) as transport:
        client = Client(transport)
        async with run_in_background(*(create(client, number) for number in range(6))):
            await eventually_true(lambda: server.hanging == 4)
            manager = Manager(client, SystemClock(), "replica", lease=LEASE)
            running = asyncio.create_task(manager.run())
            await eventually_true(lambda: server.renewals > 0, within=20)
            manager.stop()
            await running


@pytest.mark.parametrize(
    ("terms", "renewals"),
    [
        pytest.param(Terms(60.0, 40.0, 0.1), 20, id="20 renewals"),
        pytest.param(
            Terms(), 300, marks=[pytest.mark.exhaustive, pytest.mark.timeout(1200)], id="10 minutes"
        ),
    ],
)
async def test_lease_is_kept_while_72_workers_write_to_a_slow_server(terms: Terms, renewals: int, caplog):
    """Each write takes 10 s, as if a webhook of somebody else hung; the limit of requests is the real one."""
    server, clock = Server(creates_config_maps, seconds=10.0), SystemClock()
    async with serving(server) as config, Transport(config) as transport:
        manager = Manager(Client(transport), clock, "replica", lease=LEASE, terms=terms)
        manager.add_controller(*a_controller_that_creates(manager.client, 72))
        async with run_in_background(manager.run()):
            await eventually_true(lambda: server.hanging == 32, within=20)
            wanted = server.renewals + renewals
            await eventually_true(lambda: server.renewals >= wanted, within=1000)
            assert manager._leader
            assert manager._leader.holds()
    assert "Leadership lost" not in caplog.text


def a_controller_that_creates(client: Client, workers: int) -> tuple[Controller, Recorder]:
    """Return a controller that always creates ConfigMaps with all of its workers."""
    store: Store[Object] = Store()
    for number in range(workers):
        store.put(Object(ObjectMeta(name=f"c{number}", namespace="ns", resource_version="1")))

    async def reconcile(key: ObjectKey) -> Result:
        with contextlib.suppress(DeadlineExceeded):  # waited too long for one of 32 places
            await create(client, int(key.name[1:]))
        return Result.after(0.0)

    clock = SystemClock()
    queue = WorkQueue("creates", clock)
    controller = Controller("creates", reconcile, queue, store, OwnWrites(queue.add), clock, workers=workers)
    return controller, Recorder(client, "creates", "replica", clock)


async def test_request_behind_hanging_requests_times_out():
    server = Server(creates_config_maps)
    async with serving(server) as config, Transport(config, max_requests=1, timeout=2.0) as transport:
        client = Client(transport)
        async with transport._slots:  # held by a request that never ends
            with pytest.raises(DeadlineExceeded, match="too many requests"):
                async with asyncio.timeout(30):
                    await create(client, 1)
        await client.version()


async def test_lease_connection_closes_with_the_manager():
    server = Server(creates_config_maps)
    async with serving(server) as config, Transport(config) as transport:
        apart = Client(transport).separate(timeout=5.0)
        await apart.version()
        assert [len(idle) for idle in apart._transport._pool._idle.values()] == [1]
        assert transport._pool._idle == {}, "a connection is shared"
        await apart.close()
        assert apart._transport._pool._idle == {}


async def test_unreachable_server_makes_the_process_not_ready_but_alive():
    clock = VirtualClock()
    health = HealthServer("127.0.0.1", 0, SystemClock())
    async with Transport(ClusterConfig("http://127.0.0.1:1")) as transport:
        manager = Manager(Client(transport), clock, "replica", health=health)
        store: Store[Object] = Store()
        manager.add_watch(Selection(CONFIG_MAPS, msgspec.json.Decoder(Object).decode), store)
        store.finish_list(set(), 1)
        port = await health.start()
        try:
            names = ("identity", "watches", "caches", "controllers", "running")
            assert await ask(port, "/readyz") == (200, "".join(f"[+] {name}: ok\n" for name in names))
            await clock.advance(301.0)
            status, text = await ask(port, "/readyz")
            assert (status, text.splitlines()[1]) == (
                503,
                "[-] watches: no contact with the API server for long: configmaps",
            )
            assert (await ask(port, "/healthz"))[0] == 200, "a restart brings no server back"
        finally:
            await health.stop()


async def ask(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()
