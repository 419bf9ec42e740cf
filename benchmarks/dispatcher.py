"""One dispatcher with many Subscriptions: memory, CPU while idle, time until it holds all consumers; and
what the delivery of an event costs it.

The dispatcher is the product as its pods start it, with a real NATS server, a real API server, and a
sink in this process. Counted is the dispatcher's own process.
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import report
from benchmarks.measure import load_average
from benchmarks.plane import fresh
from benchmarks.programs import Progress
from benchmarks.running import clock
from kit.cluster import service_accounts
from kit.cluster.api import Api
from kit.cluster.control_plane import fresh_namespace
from kit.eventually import eventually
from kit.http.sink import Sink
from kit.kinds.subscriptions import STREAM, Scene, a_scene, headers, install, subscription_operator
from kit.nats.dispatchers import DispatcherProcess
from kit.nats.server import a_nats_server

TYPES = 5
IDLE_SECONDS = 30.0
IN_FLIGHT = (1, 10, 100)
HEADINGS = ["Subscriptions", "ready s", "ready after kill s", "MB", "idle CPU ms/s"]
EVENT_HEADINGS = ["in flight", "events", "events/s", "CPU µs/event"]


@dataclass(frozen=True, slots=True)
class Held:
    """What it takes to hold many consumers."""

    subscriptions: int
    ready_seconds: float
    ready_again_seconds: float
    mb: float
    idle_ms: float


@dataclass(frozen=True, slots=True)
class Delivered:
    """What it takes to deliver."""

    in_flight: int
    events: int
    seconds: float
    cpu_seconds: float


async def run(count: int, events: int, progress: Progress) -> tuple[Held, list[Delivered]]:
    """Hold many consumers, then deliver to a few of them."""
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(fresh(progress))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        server = await stack.enter_async_context(a_nats_server(scratch / "nats"))
        api = await stack.enter_async_context(Api.connect(plane.cluster.kubeconfig))
        namespace = await stack.enter_async_context(fresh_namespace(api))
        await install(plane.scene.client)
        service_accounts.install(plane.cluster)
        scene = await stack.enter_async_context(
            a_scene(plane.scene.client, namespace, server, plane.cluster.kubeconfig)
        )
        await stack.enter_async_context(subscription_operator(plane.cluster.kubeconfig, scene))
        sink = Sink(keep=lambda request: None)
        await sink.start()
        stack.push_async_callback(sink.stop)
        for in_flight in IN_FLIGHT:
            await scene.subscribe(
                f"fed-{in_flight}",
                types=[f"fed.{in_flight}.v1"],
                config={"maxInFlightMessages": in_flight},
            )
        progress(f"  {count} Subscriptions with {TYPES} types each, load {load_average()}")
        await _subscribe(scene, count - len(IN_FLIGHT))
        places = {scene.host: ("127.0.0.1", sink.port)}
        dispatcher = DispatcherProcess(scene.settings, scene.kubeconfig, places)
        stack.push_async_callback(dispatcher.end)
        held = await _held(dispatcher, count)
        report.keep_details("dispatcher", asdict(held))
        fed = [await _fed(scene, sink, dispatcher, each, events) for each in IN_FLIGHT]
        report.keep_details("dispatcher-events", [asdict(each) for each in fed])
    return held, fed


async def _subscribe(scene: Scene, count: int) -> None:
    limit = asyncio.Semaphore(32)

    async def one(number: int) -> None:
        async with limit:
            await scene.subscribe(f"s{number}", types=[f"t{kind}.n{number}.v1" for kind in range(TYPES)])

    await asyncio.gather(*map(one, range(count)))

    async def all_there() -> None:
        found = await scene.jetstream.stream_info(STREAM)
        assert found.state.consumer_count == count + len(IN_FLIGHT), found.state

    await eventually(all_there, within=600)


async def _held(dispatcher: DispatcherProcess, count: int) -> Held:
    first = await _started(dispatcher)
    dispatcher.program.kill()
    again = await _started(dispatcher)
    before = dispatcher.cpu_seconds
    await clock.sleep(IDLE_SECONDS)
    idle = (dispatcher.cpu_seconds - before) / IDLE_SECONDS * 1000
    return Held(count, first, again, dispatcher.rss_mb, idle)


async def _started(dispatcher: DispatcherProcess) -> float:
    began = time.monotonic()
    await dispatcher.start()
    return time.monotonic() - began


async def _fed(
    scene: Scene, sink: Sink, dispatcher: DispatcherProcess, in_flight: int, count: int
) -> Delivered:
    """Events as fast as the stream takes them, until the sink has them all."""
    events = count // 10 if in_flight == 1 else count
    taken = 0

    def keep(request: object) -> None:
        nonlocal taken
        taken += 1

    sink.keep = keep
    subject = f"kyma.commerce.fed.{in_flight}.v1"
    before, began = dispatcher.cpu_seconds, time.monotonic()
    window: set[asyncio.Future[object]] = set()
    for number in range(events):
        window.add(
            asyncio.ensure_future(scene.jetstream.send(subject, b"x" * 256, headers(f"{in_flight}-{number}")))
        )
        if len(window) >= 500:
            _, window = await asyncio.wait(window, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.gather(*window)

    def all_there() -> None:
        assert taken >= events, f"{taken} of {events}"

    await eventually(all_there, within=600)
    seconds = time.monotonic() - began
    return Delivered(in_flight, events, seconds, dispatcher.cpu_seconds - before)


def rows(held: Held) -> list[list[str]]:
    """As people read it."""
    return [
        [
            str(held.subscriptions),
            f"{held.ready_seconds:.1f}",
            f"{held.ready_again_seconds:.1f}",
            f"{held.mb:.0f}",
            f"{held.idle_ms:.1f}",
        ]
    ]


def event_rows(fed: Sequence[Delivered]) -> list[list[str]]:
    """As people read it."""
    return [
        [
            str(each.in_flight),
            str(each.events),
            f"{each.events / each.seconds:.0f}",
            f"{each.cpu_seconds / each.events * 1e6:.0f}",
        ]
        for each in fed
    ]
