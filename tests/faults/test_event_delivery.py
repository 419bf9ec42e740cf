"""Event delivery from publishers to sinks while every process on the way is killed, restarted or stopped.

Every event that was acknowledged with 204 is delivered at least once, and in order where one event may be in flight.
By default few events per second are published until all faults are over; the exhaustive test publishes as many as
possible. QUINTET_EVENTS and QUINTET_SINK_AWAY set the number of events and how long the sink is stopped. Duplicates
are allowed, counted and printed.
"""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kit.eventually import eventually
from kit.http.raw import RawClient
from kit.http.sink import Received, Sink
from kit.kinds.subscriptions import Scene, a_scene, install, subscription_operator
from kit.nats.dispatchers import DispatcherProcess
from kit.nats.publishers import Publisher, a_publisher, settings
from kit.nats.server import a_nats_server
from quintet.kube.client import Client
from quintet.local.cluster import Cluster

EVENTS = int(os.environ.get("QUINTET_EVENTS", "10000"))
FEW = 700
SINK_AWAY = float(os.environ.get("QUINTET_SINK_AWAY", "5"))
PUBLISHERS = 16
PAUSE = 0.1
ORDERED, MANY = "order.ordered.v1", "order.created.v1"
PATIENCE = 900


@dataclass
class Load:
    """Publishers that send each event until a proxy responds with 204."""

    proxies: list[Publisher]
    events: int | None = None
    """How many to send, as fast as possible; if `None`, a few a second until `over` is set."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    acknowledged: dict[str, list[int]] = field(default_factory=lambda: {ORDERED: [], MANY: []})
    refusals: Counter[str] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    async def run(self) -> None:
        total = sys.maxsize if self.events is None else self.events
        ordered = total // 10
        shares = [range(first, total - ordered, PUBLISHERS) for first in range(PUBLISHERS)]
        async with asyncio.TaskGroup() as group:
            # One by one: events sent while another is in flight have no order.
            group.create_task(self._publish(ORDERED, range(ordered)))
            for share in shares:
                group.create_task(self._publish(MANY, share))

    async def _publish(self, event_type: str, numbers: range) -> None:
        client: RawClient | None = None
        turn = numbers.start
        for number in numbers:
            if self.events is None and self.over.is_set():
                break
            while True:
                try:
                    if client is None:
                        port = self.proxies[turn % len(self.proxies)].port
                        client = RawClient(*await asyncio.open_connection("127.0.0.1", port))
                    answer = await client.ask(_request(event_type, number))
                except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                    status, leave = type(error).__name__, True
                else:
                    status, leave = str(answer.status), answer.headers.get("connection") == "close"
                if status == "204":
                    self.acknowledged[event_type].append(number)
                if client is not None and leave:
                    client.close()
                    client = None
                if status == "204":
                    break
                turn += 1
                self.refusals[status] += 1
                await asyncio.sleep(0.05)
            if self.events is None:
                await asyncio.sleep(PAUSE)
        if client is not None:
            client.close()


def _request(event_type: str, number: int) -> bytes:
    return (
        f"POST /publish HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nce-specversion: 1.0\r\n"
        # Source and id identify an event, whatever its type.
        f"ce-id: {event_type}/{number}\r\nce-source: commerce\r\nce-type: {event_type}\r\nContent-Length: 7\r\n\r\n"
    ).encode() + b'{"a":1}'


@dataclass
class Book:
    """The events that the sink received, by type and in order."""

    taken: dict[str, list[int]] = field(default_factory=lambda: {ORDERED: [], MANY: []})

    def keep(self, request: Received) -> None:
        self.taken[request.headers["ce-type"]].append(int(request.id.rpartition("/")[2]))

    def duplicates(self, event_type: str) -> int:
        return len(self.taken[event_type]) - len(set(self.taken[event_type]))


@dataclass
class Place:
    """Publishers, proxies, NATS server, dispatchers and sink."""

    scene: Scene
    sink: Sink
    book: Book
    proxies: list[Publisher]
    dispatchers: list[DispatcherProcess]
    load: Load
    loading: "asyncio.Task[None] | None" = None

    async def reached(self, share: float) -> None:
        target = int((self.load.events or FEW) * share)

        def assert_enough() -> None:
            if self.loading is not None and self.loading.done():
                self.loading.result()
            seen = f"{self.load.count} of {target}; refused: {dict(self.load.refusals)}"
            assert self.load.count >= target, seen

        await eventually(assert_enough, within=PATIENCE)


@pytest.fixture
async def place(client: Client, cluster: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[Place]:
    await install(client)
    book = Book()
    sink = Sink(keep=book.keep)
    await sink.start()
    async with (
        a_nats_server(tmp_path / "nats") as server,
        a_scene(client, namespace, server, cluster.kubeconfig) as scene,
        subscription_operator(cluster.kubeconfig, scene),
        a_publisher(settings(server.url), leave=0.5) as first,
        a_publisher(settings(server.url), leave=0.5) as second,
    ):
        places = {scene.host: ("127.0.0.1", sink.port)}
        dispatchers = [DispatcherProcess(scene.settings, scene.kubeconfig, places) for _ in range(2)]
        await scene.subscribe("ordered", types=[ORDERED], config={"maxInFlightMessages": 1})
        await scene.subscribe("many", types=[MANY], config={"maxInFlightMessages": 100})
        try:
            await asyncio.gather(*(each.start() for each in dispatchers))
            for name in ("ordered", "many"):
                await scene.wait_for_reason(name, "Delivering")
            yield Place(scene, sink, book, [first, second], dispatchers, Load([first, second]))
        finally:
            for each in dispatchers:
                await each.end()
            await sink.stop()


async def kill_and_restart_nats(place: Place) -> None:
    await place.scene.server.kill()
    await asyncio.sleep(1)
    await place.scene.server.start()


async def kill_dispatcher(place: Place) -> None:
    place.dispatchers[0].program.kill()
    await place.dispatchers[0].start()


async def stop_sink_for_a_while(place: Place) -> None:
    await place.sink.stop()
    await asyncio.sleep(SINK_AWAY)
    await place.sink.start()


async def restart_proxies_one_by_one(place: Place) -> None:
    for proxy in place.proxies:
        assert await proxy.stop() == 0, proxy.program.log
        await proxy.start()
        await proxy.ready()


async def terminate_dispatcher(place: Place) -> None:
    place.dispatchers[1].program.signal(signal.SIGTERM)
    assert await place.dispatchers[1].program.ended() == 0, place.dispatchers[1].program.log
    await place.dispatchers[1].start()


FAULTS: tuple[Callable[[Place], Awaitable[None]], ...] = (
    kill_and_restart_nats,
    kill_dispatcher,
    stop_sink_for_a_while,
    restart_proxies_one_by_one,
    terminate_dispatcher,
)


@asynccontextmanager
async def run_under_load(place: Place) -> AsyncIterator[None]:
    place.loading = loading = asyncio.create_task(place.load.run())
    try:
        yield
        place.load.over.set()
        await loading
    finally:
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)


@pytest.mark.timeout(2 * PATIENCE)
@pytest.mark.parametrize(
    "events", [None, pytest.param(EVENTS, marks=pytest.mark.exhaustive)], ids=["few events", "many events"]
)
async def test_every_acknowledged_event_is_delivered_despite_failures(events: int | None, place: Place):
    load, book = place.load, place.book
    load.events = events
    began = asyncio.get_running_loop().time()
    async with run_under_load(place):
        for number, fault in enumerate(FAULTS, 1):
            await place.reached(number / (len(FAULTS) + 2))
            await fault(place)
        await place.reached(1.0)
    published = asyncio.get_running_loop().time() - began

    def assert_all_present() -> None:
        for event_type, numbers in load.acknowledged.items():
            missing = set(numbers) - set(book.taken[event_type])
            assert not missing, (
                f"{len(missing)} of {len(numbers)} {event_type} are not there: {sorted(missing)[:5]}"
            )

    await eventually(assert_all_present, within=PATIENCE)
    delivered = asyncio.get_running_loop().time() - began
    print(  # noqa: T201  # results for the reader
        f"{load.count} events acknowledged in {published:.0f} s and delivered in {delivered:.0f} s; "
        f"duplicates: {book.duplicates(MANY)} of {len(load.acknowledged[MANY])} with 100 under way, "
        f"{book.duplicates(ORDERED)} of {len(load.acknowledged[ORDERED])} with one; "
        f"refusals that publishers repeated: {dict(load.refusals)}"
    )
    assert load.count >= (events or FEW)
    first_seen = list(dict.fromkeys(book.taken[ORDERED]))
    assert first_seen == load.acknowledged[ORDERED], "the order was not kept"
    dead = await place.scene.jetstream.stream_info("sap-dead-letter")
    assert dead.state.messages == 0, "a dead letter although the sink returned"


async def test_event_delivery_continues_while_api_server_is_down(place: Place, cluster: Cluster):
    cluster.process("kube-apiserver").kill()
    try:
        for number in range(50):
            await place.scene.publish(f"away/{number}", subject=f"kyma.commerce.{MANY}")

        async def assert_all_present() -> None:
            assert sorted(place.book.taken[MANY]) == list(range(50)), place.book.taken[MANY]
            for each in place.dispatchers:
                await each.ready()
                assert (await each.get("/healthz")).status == 200

        await eventually(assert_all_present, within=60)
    finally:
        await asyncio.to_thread(cluster.process("kube-apiserver").restart)
