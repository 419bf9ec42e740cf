"""An operator that creates ten ConfigMaps per JsonServer, for the scale benchmark.

It measures the runtime (watch, cache, queue, drift check, status), without Services and Deployments,
whose cost is the API server's. Run it as `python -m benchmarks.operators.tenfold`.
"""

import argparse
import asyncio

import uvloop

from quintet.apis.jsonserver import JSONSERVERS, JsonServer, JsonServerStatus, State
from quintet.apis.meta import JsonObject, ObjectKey
from quintet.cli.verbs.processes import run as product
from quintet.clock import SystemClock
from quintet.controllers.jsonserver.decide import desired
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.transport import Transport
from quintet.observe import logging as logs
from quintet.runtime.builder import Builder
from quintet.runtime.manager import Manager
from quintet.runtime.reconcile import Result

CHILDREN = 10


def bodies(server: JsonServer) -> list[JsonObject]:
    """Return the desired ConfigMaps."""
    whole = desired.config_map(server)
    return [
        {**whole, "metadata": {**whole["metadata"], "name": f"{server.metadata.name}-{number}"}}
        for number in range(CHILDREN)
    ]


def build(manager: Manager, workers: int) -> None:
    """Register the controller with the manager."""
    builder = Builder(manager, "tenfold", JSONSERVERS, JsonServer)
    builder.owns(desired.CONFIG_MAPS, labels=desired.SELECTOR)

    async def reconcile(key: ObjectKey) -> Result:
        server = builder.primary.get(key)
        if server is None or server.metadata.deleting:
            return Result.done()
        for body in bodies(server):
            await builder.children.ensure(server, desired.CONFIG_MAPS, body)
        status = JsonServerStatus(state=State.SYNCED, observed_generation=server.metadata.generation)
        await builder.status.write(server, server.status, status)
        return Result.done()

    builder.build(reconcile, workers=workers)


async def run(kubeconfig: str, namespace: str, workers: int) -> None:
    """Run until SIGTERM."""
    async with Transport(config.load(kubeconfig)) as transport:
        manager = Manager(Client(transport), SystemClock(), "tenfold", namespace=namespace)
        build(manager, workers)
        await manager.run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--namespace", default="")
    parser.add_argument("--workers", type=int, default=16)
    options = parser.parse_args()
    # Load the product's modules, because they are part of its memory.
    assert product.run is not None
    logs.set_up("text", "info")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(options.kubeconfig, options.namespace, options.workers))
