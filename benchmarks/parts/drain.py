"""Measures one run: a contender starts with N custom resources and brings all of them to `Synced`.

The time counts from the first child to the last status, as a watch sees them; start-up, discovery and
the first list do not count, for any contender. CPU time counts over the same period plus one second, for
unfinished work.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import msgspec

from benchmarks.contenders import Contender, Target
from benchmarks.control_plane import ControlPlane
from benchmarks.measure import Usage, memory_mb
from benchmarks.process import ContenderProcess, clock, start_process
from benchmarks.workloads import Scene, Workload
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import Object, Resource, Struct
from quintet.controllers.jsonserver.decide import desired
from quintet.kube.client import decode_watch_event

SETTLE = 1.0


class _Status(Struct, frozen=True):
    state: str = ""


class _Observed(Object, frozen=True):
    status: _Status = _Status()


_decode = msgspec.json.Decoder(_Observed).decode


@dataclass(frozen=True, slots=True)
class Run:
    """Figures of one contender."""

    contender: str
    count: int
    seconds: float
    start_seconds: float
    """From process start to the first child; not part of `seconds`."""
    cpu_ms: dict[str, float]
    """Milliseconds per custom resource of the operator, the API server and etcd."""
    rss_mb: float
    others: float = 0.0
    """Share of the CPUs used by unrelated processes; a high share makes `seconds` unreliable."""


async def drain(plane: ControlPlane, contender: Contender, workload: Workload, namespace: str) -> Run:
    """Create the custom resources, run the contender, and delete everything."""
    await plane.scene.namespace(namespace)
    servers = await plane.scene.fill(namespace, workload)
    target = Target(plane.cluster.kubeconfig, namespace)
    launch = contender.launch(target)
    if contender.plan is not None:
        launch = type(launch)(launch.argv, launch.environment, contender.plan(servers))
    try:
        async with Observer(plane.scene, namespace) as observer:
            started = time.monotonic()
            async with start_process(launch) as process:
                run = await _measure(plane, observer, process, contender.name, workload.count, started)
        await plane.reference.check(plane.scene, namespace, workload.names())
        return run
    finally:
        if launch.stdin is not None:
            launch.stdin.unlink(missing_ok=True)
        await plane.scene.clear(namespace)


async def _measure(
    plane: ControlPlane,
    observer: "Observer",
    process: ContenderProcess,
    name: str,
    count: int,
    started: float,
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
    """Watches the children and statuses that a contender writes."""

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
        await clock.sleep(0.2)  # let both watches open before the contender starts
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def first_child(self, process: ContenderProcess, within: float) -> float:
        """Return when the first child appeared."""
        await self._until(self._first.done, process, within)
        return self._first.result()

    async def all_synced(self, count: int, process: ContenderProcess, within: float) -> float:
        """Return when the last of `count` statuses was written."""
        await self._until(lambda: len(self._times) >= count, process, within)
        return max(self._times.values())

    async def synced(self, name: str, process: ContenderProcess, within: float) -> float:
        """Return when the status of an object was written."""
        await self._until(lambda: name in self._times, process, within)
        return self._times[name]

    async def _until(self, done: Callable[[], bool], process: ContenderProcess, within: float) -> None:
        deadline = time.monotonic() + within
        while not done():
            process.check()
            for task in self._tasks:
                if task.done() and task.exception() is not None:
                    raise RuntimeError("the watch of the observer has ended") from task.exception()
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{len(self._times)} synced within {within:g} s; output:\n{process.output()[-2000:]}"
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
