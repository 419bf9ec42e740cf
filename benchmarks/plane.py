"""A control plane for one series: API server and etcd alone, nobody else writes.

The controllers of Kubernetes would act on every Deployment and add status writes that wake
some contenders and not others; without them every contender sees the same children and writes
exactly once. They are ended, not frozen: a frozen watcher would hold up the API server.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

from benchmarks.sameness import Reference
from benchmarks.workloads import Scene
from kit.kinds.jsonservers import install
from quintet.kube import config
from quintet.kube.transport import Transport
from quintet.local.cluster import Cluster, down, up

SILENCED = ("kube-controller-manager", "kube-scheduler")
SERVERS = {"apiserver": "kube-apiserver", "etcd": "etcd"}


@dataclass(frozen=True)
class Plane:
    """A running control plane and a client to it."""

    cluster: Cluster
    scene: Scene
    reference: Reference = field(default_factory=Reference)

    @property
    def pids(self) -> dict[str, int]:
        """The servers whose CPU time is counted."""
        return {name: self.cluster.process(program).pid for name, program in SERVERS.items()}


@contextlib.contextmanager
def _cluster(progress: Callable[[str], None]) -> Iterator[Cluster]:
    name = f"bench-{os.getpid()}"
    cluster = up(name, progress=progress)
    try:
        for silenced in SILENCED:
            cluster.process(silenced).kill()
        yield cluster
    finally:
        down(name)


@contextlib.asynccontextmanager
async def fresh(progress: Callable[[str], None]) -> AsyncIterator[Plane]:
    """A new control plane that knows JsonServers; gone afterwards."""
    with _cluster(progress) as cluster:
        async with Transport(config.load(str(cluster.kubeconfig)), timeout=120.0) as transport:
            scene = Scene(transport)
            await install(scene.client)
            yield Plane(cluster, scene)
