"""Measures an idle operator: the time from the creation of one custom resource to its status.

The status is written after the children, and is seen in a watch. The memory of the operator before the
first object is recorded too.
"""

import time
from dataclasses import dataclass

from benchmarks.contenders import Contender, Target
from benchmarks.control_plane import ControlPlane
from benchmarks.measure import memory_mb
from benchmarks.parts.drain import Observer
from benchmarks.process import clock, start_process
from benchmarks.workloads import Workload

PAUSE = 0.1
WARM_UP = 5


@dataclass(frozen=True, slots=True)
class Idle:
    """Latencies and memory of an idle operator."""

    milliseconds: list[float]
    """One per custom resource, without the first few, which open connections."""
    empty_mb: float
    """Peak memory before the first custom resource."""


async def idle(plane: ControlPlane, contender: Contender, samples: int, namespace: str) -> Idle:
    """Start an operator on an empty namespace and create the custom resources one by one."""
    workload = Workload(samples + WARM_UP)
    target = Target(plane.cluster.kubeconfig, namespace)
    await plane.scene.namespace(namespace)
    found = []
    try:
        async with (
            Observer(plane.scene, namespace) as observer,
            start_process(contender.launch(target)) as process,
        ):
            await clock.sleep(4.0)  # not every contender reports that it is ready
            empty = memory_mb(process.pid)
            for name in workload.names():
                begun = time.monotonic()
                await plane.scene.fill(namespace, workload, [name])
                found.append((await observer.synced(name, process, 60.0) - begun) * 1000)
                await clock.sleep(PAUSE)
    finally:
        await plane.scene.clear(namespace)
    return Idle(found[WARM_UP:], empty)
