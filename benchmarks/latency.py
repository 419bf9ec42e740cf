"""An idle operator, one new custom resource at a time: how long until its children and status are there.

From sending the create to seeing the status in a watch; the status is written after the children.
"""

import time

from benchmarks.contenders import Contender, Place
from benchmarks.drain import Observer
from benchmarks.plane import Plane
from benchmarks.running import clock, running
from benchmarks.workloads import Workload

PAUSE = 0.1
UNCOUNTED = 5


async def latencies(plane: Plane, contender: Contender, samples: int, namespace: str) -> list[float]:
    """Milliseconds, one per custom resource; the first few, which open connections, are left out."""
    workload = Workload(samples + UNCOUNTED)
    place = Place(plane.cluster.kubeconfig, namespace)
    await plane.scene.namespace(namespace)
    found = []
    try:
        async with Observer(plane.scene, namespace) as observer, running(contender.launch(place)) as process:
            await clock.sleep(4.0)  # not every contender tells when it is ready
            for name in workload.names():
                begun = time.monotonic()
                await plane.scene.fill(namespace, workload, [name])
                found.append((await observer.synced(name, process, 60.0) - begun) * 1000)
                await clock.sleep(PAUSE)
    finally:
        await plane.scene.clear(namespace)
    return found[UNCOUNTED:]
