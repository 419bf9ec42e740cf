"""A control plane with only the API server and etcd, for one series of runs.

The controllers of Kubernetes would act on every Deployment and add status writes that wake some
contenders and not others. They are stopped, not paused: a paused watcher would slow the API server.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

from benchmarks.comparison import Reference
from benchmarks.workloads import Scene
from kit.kinds.jsonservers import install
from quintet.kube import config
from quintet.kube.transport import Transport
from quintet.local.cluster import Cluster, down, up

STOPPED = ("kube-controller-manager", "kube-scheduler")
SERVERS = {"apiserver": "kube-apiserver", "etcd": "etcd"}


@dataclass(frozen=True)
class ControlPlane:
    """A running control plane and a client for it."""

    cluster: Cluster
    scene: Scene
    reference: Reference = field(default_factory=Reference)

    @property
    def pids(self) -> dict[str, int]:
        """Pids of the servers whose CPU time is measured."""
        return {name: self.cluster.process(program).pid for name, program in SERVERS.items()}


@contextlib.contextmanager
def _cluster(progress: Callable[[str], None]) -> Iterator[Cluster]:
    name = f"bench-{os.getpid()}"
    cluster = up(name, progress=progress)
    try:
        for stopped in STOPPED:
            cluster.process(stopped).kill()
        yield cluster
    finally:
        down(name)


@contextlib.asynccontextmanager
async def fresh_control_plane(progress: Callable[[str], None]) -> AsyncIterator[ControlPlane]:
    """Start a control plane with the JsonServer CRD; remove it at the end."""
    with _cluster(progress) as cluster:
        async with Transport(config.load(str(cluster.kubeconfig)), timeout=120.0) as transport:
            scene = Scene(transport)
            await install(scene.client)
            yield ControlPlane(cluster, scene)
