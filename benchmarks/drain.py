"""One run: N custom resources are there, a contender starts and brings all of them to `Synced`.

The time counts from the first child that appears to the last status, both as a watch of ours
sees them: start-up, discovery and the first list are left out, for everybody alike. CPU time is
counted over the same stretch and one second more, for what is still under way after the last status.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import msgspec

from benchmarks.contenders import Contender, Place
from benchmarks.measure import Usage, memory_mb
from benchmarks.plane import Plane
from benchmarks.running import Running, clock, running
from benchmarks.workloads import Scene, Workload
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import Object, Resource, Struct
from quintet.controllers.jsonserver.decide import desired
from quintet.kube.client import decode_watch_event

SETTLE = 1.0


class _Status(Struct, frozen=True):
    state: str = ""


class _Seen(Object, frozen=True):
    status: _Status = _Status()


_decode = msgspec.json.Decoder(_Seen).decode


@dataclass(frozen=True, slots=True)
class Run:
    """What one contender took."""

    contender: str
    count: int
    seconds: float
    start_seconds: float
    """From the start of the process to its first child: not part of `seconds`."""
    cpu_ms: dict[str, float]
    """Per custom resource: of the operator, of the API server, of etcd."""
    rss_mb: float
    others: float = 0.0
    """The share of the machine that went to processes which take no part: how far to trust `seconds`."""


async def drain(plane: Plane, contender: Contender, workload: Workload, namespace: str) -> Run:
    """Make the custom resources, let the contender work on them, clear everything away."""
    await plane.scene.namespace(namespace)
    servers = await plane.scene.fill(namespace, workload)
    place = Place(plane.cluster.kubeconfig, namespace)
    launch = contender.launch(place)
    if contender.plan is not None:
        launch = type(launch)(launch.argv, launch.environment, contender.plan(servers))
    try:
        async with Observer(plane.scene, namespace) as observer:
            started = time.monotonic()
            async with running(launch) as process:
                run = await _measured(plane, observer, process, contender.name, workload.count, started)
        await plane.reference.check(plane.scene, namespace, workload.names())
        return run
    finally:
        if launch.stdin is not None:
            launch.stdin.unlink(missing_ok=True)
        await plane.scene.clear(namespace)


async def _measured(
    plane: Plane, observer: "Observer", process: Running, name: str, count: int, started: float
) -> Run:
    within = 60.0 + count * 0.5
    pids = {**plane.pids, "operator": process.pid}
    first = await observer.first_child(process, within)
    before = Usage.of(pids)
    last = await observer.all_synced(count, process, within)
    await clock.sleep(SETTLE)
    after = Usage.of(pids)
    return Run(
        contender=name,
        count=count,
        seconds=last - first,
        start_seconds=first - started,
        cpu_ms={part: seconds / count * 1000 for part, seconds in after.since(before).items()},
        rss_mb=memory_mb(process.pid),
        others=after.others_since(before),
    )


class Observer:
    """Sees from outside what a contender brings about."""

    def __init__(self, scene: Scene, namespace: str) -> None:
        self._scene = scene
        self._namespace = namespace
        self._first: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._times: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Observer":
        version = ""
        async for page in self._scene.client.pages(JSONSERVERS, namespace=self._namespace):
            version = page.metadata.resource_version
        self._tasks = [
            asyncio.create_task(self._follow_children(version)),
            asyncio.create_task(self._follow_statuses(version)),
        ]
        await clock.sleep(0.2)  # both streams are open before anything is to be seen
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def first_child(self, process: Running, within: float) -> float:
        """When the first child was there."""
        await self._until(self._first.done, process, within)
        return self._first.result()

    async def all_synced(self, count: int, process: Running, within: float) -> float:
        """When the last of so many statuses was there."""
        await self._until(lambda: len(self._times) >= count, process, within)
        return max(self._times.values())

    async def synced(self, name: str, process: Running, within: float) -> float:
        """When one status was there."""
        await self._until(lambda: name in self._times, process, within)
        return self._times[name]

    async def _until(self, done: Callable[[], bool], process: Running, within: float) -> None:
        deadline = time.monotonic() + within
        while not done():
            process.check()
            for task in self._tasks:
                if task.done() and task.exception() is not None:
                    raise RuntimeError("the observer has lost its watch") from task.exception()
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{len(self._times)} synced within {within:g} s; it said:\n{process.words()[-2000:]}"
                )
            self._changed.clear()
            if not done():
                try:
                    await asyncio.wait_for(self._changed.wait(), 0.5)
                except TimeoutError:
                    continue

    async def _follow_children(self, version: str) -> None:
        async for _ in self._lines(desired.CONFIG_MAPS, version):
            self._first.set_result(time.monotonic())
            self._changed.set()
            return

    async def _follow_statuses(self, version: str) -> None:
        async for line in self._lines(JSONSERVERS, version):
            now = time.monotonic()
            event = decode_watch_event(line)
            if event.type in ("ADDED", "MODIFIED"):
                seen = _decode(event.object)
                if seen.status.state == "Synced" and seen.metadata.name not in self._times:
                    self._times[seen.metadata.name] = now
                    self._changed.set()

    async def _lines(self, resource: Resource, version: str) -> AsyncIterator[bytes]:
        async with self._scene.client.watch(
            resource, namespace=self._namespace, resource_version=version, timeout=3600, idle_timeout=3600
        ) as batches:
            async for lines in batches:
                for line in lines:
                    if b'"BOOKMARK"' not in line[:40]:
                        yield line
