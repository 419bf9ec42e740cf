"""Measures one dispatcher with many Subscriptions: memory, idle CPU, start time, and CPU per event.

The dispatcher runs as in its pods, with a real NATS server, a real API server, and a sink in this
process. Only the dispatcher's own process is measured.
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import report
from benchmarks.control_plane import fresh_control_plane
from benchmarks.measure import load_average
from benchmarks.process import clock
from benchmarks.programs import Progress
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
class IdleCost:
    """Cost of many consumers without events."""

    subscriptions: int
    ready_seconds: float
    ready_again_seconds: float
    mb: float
    idle_ms: float


@dataclass(frozen=True, slots=True)
class DeliveryCost:
    """Cost of delivering events."""

    in_flight: int
    events: int
    seconds: float
    cpu_seconds: float


async def run(count: int, events: int, progress: Progress) -> tuple[IdleCost, list[DeliveryCost]]:
    """Create many consumers, then deliver events to a few of them."""
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(fresh_control_plane(progress))
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
        held = await _measure_idle(dispatcher, count)
        report.keep_details("dispatcher", asdict(held))
        fed = [await _measure_delivery(scene, sink, dispatcher, each, events) for each in IN_FLIGHT]
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


async def _measure_idle(dispatcher: DispatcherProcess, count: int) -> IdleCost:
    first = await _start(dispatcher)
    dispatcher.program.kill()
    again = await _start(dispatcher)
    before = dispatcher.cpu_seconds
    await clock.sleep(IDLE_SECONDS)
    idle = (dispatcher.cpu_seconds - before) / IDLE_SECONDS * 1000
    return IdleCost(count, first, again, dispatcher.rss_mb, idle)


async def _start(dispatcher: DispatcherProcess) -> float:
    began = time.monotonic()
    await dispatcher.start()
    return time.monotonic() - began


async def _measure_delivery(
    scene: Scene, sink: Sink, dispatcher: DispatcherProcess, in_flight: int, count: int
) -> DeliveryCost:
    """Publish as fast as the stream accepts, until the sink has received all events."""
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
    return DeliveryCost(in_flight, events, seconds, dispatcher.cpu_seconds - before)


def rows(held: IdleCost) -> list[list[str]]:
    """Return the rows of the table."""
    return [
        [
            str(held.subscriptions),
            f"{held.ready_seconds:.1f}",
            f"{held.ready_again_seconds:.1f}",
            f"{held.mb:.0f}",
            f"{held.idle_ms:.1f}",
        ]
    ]


def event_rows(fed: Sequence[DeliveryCost]) -> list[list[str]]:
    """Return the rows of the table."""
    return [
        [
            str(each.in_flight),
            str(each.events),
            f"{each.events / each.seconds:.0f}",
            f"{each.cpu_seconds / each.events * 1e6:.0f}",
        ]
        for each in fed
    ]
