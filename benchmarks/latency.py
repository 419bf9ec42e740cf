"""An idle operator, one new custom resource at a time: how long until its children and status are there.

From sending the create to seeing the status in a watch; the status is written after the children.
What the operator needs of memory before there is anything to do is noted on the way.
"""

import time
from dataclasses import dataclass

from benchmarks.contenders import Contender, Place
from benchmarks.drain import Observer
from benchmarks.measure import memory_mb
from benchmarks.plane import Plane
from benchmarks.running import clock, running
from benchmarks.workloads import Workload

PAUSE = 0.1
UNCOUNTED = 5


@dataclass(frozen=True, slots=True)
class Idle:
    """An operator that has nothing to do but what it is given."""

    milliseconds: list[float]
    """One per custom resource; the first few, which open connections, are left out."""
    empty_mb: float
    """The largest resident size before the first custom resource."""


async def idle(plane: Plane, contender: Contender, samples: int, namespace: str) -> Idle:
    """Start an operator on nothing, and give it so many custom resources one by one."""
    workload = Workload(samples + UNCOUNTED)
    place = Place(plane.cluster.kubeconfig, namespace)
    await plane.scene.namespace(namespace)
    found = []
    try:
        async with Observer(plane.scene, namespace) as observer, running(contender.launch(place)) as process:
            await clock.sleep(4.0)  # not every contender tells when it is ready
            empty = memory_mb(process.pid)
            for name in workload.names():
                begun = time.monotonic()
                await plane.scene.fill(namespace, workload, [name])
                found.append((await observer.synced(name, process, 60.0) - begun) * 1000)
                await clock.sleep(PAUSE)
    finally:
        await plane.scene.clear(namespace)
    return Idle(found[UNCOUNTED:], empty)
