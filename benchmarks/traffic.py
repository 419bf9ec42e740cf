"""Requests counted by a recording proxy: on creation, in quiet times, after a restart.

The proxy slows a contender down, so nothing is timed here.
"""

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders import Contender, Place
from benchmarks.drain import Observer
from benchmarks.plane import Plane
from benchmarks.plans import Unit, as_planned
from benchmarks.running import clock, running
from benchmarks.workloads import Workload
from kit.faults.proxy import Exchange, FaultProxy, Request
from quintet.apis.jsonserver import JsonServer

QUIET = 2.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one contender sent."""

    contender: str
    count: int
    writes: dict[str, int]
    gets: int
    steady_requests: int
    steady_seconds: float
    restart_writes: int

    @property
    def writes_per_create(self) -> float:
        """Of all types together."""
        return sum(self.writes.values()) / self.count

    @property
    def gets_per_create(self) -> float:
        """Reads of single objects."""
        return self.gets / self.count


async def count_requests(
    plane: Plane, contender: Contender, workload: Workload, namespace: str, steady: float
) -> Traffic:
    """Drain, stay for a while, restart; with everything written down."""
    await plane.scene.namespace(namespace)
    await plane.scene.fill(namespace, workload)
    try:
        async with FaultProxy(plane.cluster.kubeconfig) as proxy:
            with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
                place = Place(proxy.write_kubeconfig(Path(scratch)), namespace)
                return await _counted(plane, proxy, contender, workload, place, steady)
    finally:
        await plane.scene.clear(namespace)


async def _counted(
    plane: Plane, proxy: FaultProxy, contender: Contender, workload: Workload, place: Place, steady: float
) -> Traffic:
    within = 60.0 + workload.count
    async with (
        Observer(plane.scene, place.namespace) as observer,
        running(contender.launch(place)) as process,
    ):
        await observer.all_synced(workload.count, process, within)
        await proxy.quiet(QUIET, within=within)
        writes = Counter(_kind(exchange) for exchange in proxy.trace.writes())
        gets = len(proxy.trace.requests(_reads_one))
        mark = proxy.trace.mark()
        await clock.sleep(steady)
        steady_requests = len(proxy.trace.requests(_costs, since=mark))
    mark = proxy.trace.mark()
    async with running(contender.launch(place)) as process:
        await proxy.wait_for(lambda request: request.verb == "watch", since=mark, within=60.0)
        await proxy.quiet(QUIET, lambda request: True, within=within)
        process.check()
    restart_writes = len(proxy.trace.writes(since=mark))
    return Traffic(
        contender.name, workload.count, dict(writes), gets, steady_requests, steady, restart_writes
    )


async def record_one(plane: Plane, contender: Contender) -> tuple[JsonServer, Unit]:
    """One custom resource, and the writes that a contender makes for it."""
    namespace, workload = "bench-recorded", Workload(1, prefix="app-recorded")
    await plane.scene.namespace(namespace)
    servers = await plane.scene.fill(namespace, workload)
    async with FaultProxy(plane.cluster.kubeconfig) as proxy:
        with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
            place = Place(proxy.write_kubeconfig(Path(scratch)), namespace)
            async with (
                Observer(plane.scene, namespace) as observer,
                running(contender.launch(place)) as process,
            ):
                await observer.all_synced(1, process, 60.0)
                await proxy.quiet(0.5, within=30.0)
        unit = [
            as_planned(each.request.verb, each.request.path, dict(each.request.query), each.body)
            for each in proxy.trace.writes()
        ]
    await plane.scene.clear(namespace)
    return servers[0], unit


def _kind(exchange: Exchange) -> str:
    return " ".join(str(exchange.request).split()[:2])


def _reads_one(request: Request) -> bool:
    return request.verb == "get" and bool(request.resource)


def _costs(request: Request) -> bool:
    """Whatever an idle operator still asks for, except that a watch goes on."""
    return request.verb != "watch"
