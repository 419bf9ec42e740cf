"""The process that installs the controllers and keeps them up to date."""

from __future__ import annotations

import contextlib

from quintet import __version__
from quintet.apis.meta import ObjectKey, OwnerReference
from quintet.clock import SystemClock
from quintet.components import COMPONENTS
from quintet.controllers.suite import controller as suite
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.service_account import own_service_account
from quintet.kube.transport import Transport
from quintet.manifests.installation import Flavour, installer
from quintet.observe.health import HealthServer
from quintet.processes.metrics import MetricsOptions, serving_metrics
from quintet.processes.startup import identity, prepare
from quintet.runtime.leader import Terms
from quintet.runtime.manager import Manager


async def run_operator(
    found: config.ClusterConfig,
    flavour: Flavour,
    elect: bool,
    health_address: tuple[str, int],
    metrics: MetricsOptions,
) -> None:
    """Run the operator until a signal stops the process."""
    clock = SystemClock()
    async with contextlib.AsyncExitStack() as stack:
        client = Client(await stack.enter_async_context(Transport(found)))
        await stack.enter_async_context(serving_metrics(metrics, client, clock))

        async def read_cluster() -> OwnerReference | None:
            await client.version()  # fails early on a wrong address or missing permission
            return await own_service_account(client, flavour.namespace) if config.in_pod() else None

        health = HealthServer(*health_address, clock, metrics=metrics.address is None)
        owner = await prepare(read_cluster, health, clock, patient=elect)
        manager = Manager(
            client,
            clock,
            identity(),
            lease=ObjectKey(flavour.namespace, flavour.operator) if elect else None,
            terms=Terms(owner=owner),
            namespace=flavour.namespace,
            health=health,
        )
        install = installer(tuple(COMPONENTS.values()), flavour)
        suite.build(manager, install=install, version=__version__)
        await manager.run()
