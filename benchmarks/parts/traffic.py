"""Counts requests with a recording proxy: on creation, when idle, and after a restart.

The proxy slows a contender down, so nothing is timed here.
"""

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders import Contender, Target
from benchmarks.control_plane import ControlPlane
from benchmarks.parts.drain import Observer
from benchmarks.plans import Unit, to_planned
from benchmarks.process import clock, start_process
from benchmarks.workloads import Workload
from kit.faults.proxy import Exchange, FaultProxy, Request
from quintet.apis.jsonserver import JsonServer

QUIET = 2.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests of one contender."""

    contender: str
    count: int
    writes: dict[str, int]
    gets: int
    steady_requests: int
    steady_seconds: float
    restart_writes: int

    @property
    def writes_per_create(self) -> float:
        """Writes of all types per custom resource."""
        return sum(self.writes.values()) / self.count

    @property
    def gets_per_create(self) -> float:
        """Reads of single objects per custom resource."""
        return self.gets / self.count


async def count_requests(
    plane: ControlPlane, contender: Contender, workload: Workload, namespace: str, steady: float
) -> Traffic:
    """Record the requests while the contender drains, idles and restarts."""
    await plane.scene.namespace(namespace)
    await plane.scene.fill(namespace, workload)
    try:
        async with FaultProxy(plane.cluster.kubeconfig) as proxy:
            with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
                target = Target(proxy.write_kubeconfig(Path(scratch)), namespace)
                return await _count(plane, proxy, contender, workload, target, steady)
    finally:
        await plane.scene.clear(namespace)


async def _count(
    plane: ControlPlane,
    proxy: FaultProxy,
    contender: Contender,
    workload: Workload,
    target: Target,
    steady: float,
) -> Traffic:
    within = 60.0 + workload.count
    async with (
        Observer(plane.scene, target.namespace) as observer,
        start_process(contender.launch(target)) as process,
    ):
        await observer.all_synced(workload.count, process, within)
        await proxy.quiet(QUIET, within=within)
        writes = Counter(_kind(exchange) for exchange in proxy.trace.writes())
        gets = len(proxy.trace.requests(_reads_one))
        mark = proxy.trace.mark()
        await clock.sleep(steady)
        steady_requests = len(proxy.trace.requests(_costs, since=mark))
    mark = proxy.trace.mark()
    async with start_process(contender.launch(target)) as process:
        await proxy.wait_for(lambda request: request.verb == "watch", since=mark, within=60.0)
        await proxy.quiet(QUIET, lambda request: True, within=within)
        process.check()
    restart_writes = len(proxy.trace.writes(since=mark))
    return Traffic(
        contender.name, workload.count, dict(writes), gets, steady_requests, steady, restart_writes
    )


async def record_one(plane: ControlPlane, contender: Contender) -> tuple[JsonServer, Unit]:
    """Create one custom resource; return it and the writes of a contender for it."""
    namespace, workload = "bench-recorded", Workload(1, prefix="app-recorded")
    await plane.scene.namespace(namespace)
    servers = await plane.scene.fill(namespace, workload)
    async with FaultProxy(plane.cluster.kubeconfig) as proxy:
        with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
            target = Target(proxy.write_kubeconfig(Path(scratch)), namespace)
            async with (
                Observer(plane.scene, namespace) as observer,
                start_process(contender.launch(target)) as process,
            ):
                await observer.all_synced(1, process, 60.0)
                await proxy.quiet(0.5, within=30.0)
        unit = [
            to_planned(each.request.verb, each.request.path, dict(each.request.query), each.body)
            for each in proxy.trace.writes()
        ]
    await plane.scene.clear(namespace)
    return servers[0], unit


def _kind(exchange: Exchange) -> str:
    return " ".join(str(exchange.request).split()[:2])


def _reads_one(request: Request) -> bool:
    return request.verb == "get" and bool(request.resource)


def _costs(request: Request) -> bool:
    """Return whether a request of an idle operator counts; watches do not."""
    return request.verb != "watch"
