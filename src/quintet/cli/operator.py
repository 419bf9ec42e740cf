"""The command operator: the process that installs the controllers and keeps them up to date.

Called by `main`. What it does begins in `controllers.suite.controller`; what it makes is decided in
`manifests.installation`.
"""

from __future__ import annotations

import click

from quintet import __version__
from quintet.apis.meta import ObjectKey, OwnerReference
from quintet.cli.process import elects, identity, prepare, process_options, run_process
from quintet.clock import SystemClock
from quintet.components import COMPONENTS
from quintet.controllers.suite import controller as suite
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.service_account import own_service_account
from quintet.kube.transport import Transport
from quintet.manifests.installation import FLAVOURS, QUINTET, Flavour, in_namespace, installer
from quintet.observe.health import HealthServer
from quintet.runtime.leader import Terms
from quintet.runtime.manager import Manager


@click.command(epilog="Exit codes: 0 asked to stop, 1 it failed, 2 it was called wrongly.")
@click.option(
    "--flavour",
    type=click.Choice(list(FLAVOURS)),
    default=QUINTET.name,
    show_default=True,
    help="kiagnose: only the controller of Checkups, under the names of the Kiagnose design.",
)
@click.option(
    "--image",
    envvar="QUINTET_IMAGE",
    default="",
    show_envvar=True,
    help="What controllers run unless told otherwise.",
)
@click.option("--system-namespace", envvar="POD_NAMESPACE", help="Where the controllers are installed.")
@process_options
def operator(
    kubeconfig: str | None,
    context: str | None,
    flavour: str,
    image: str,
    leader_elect: bool | None,
    system_namespace: str | None,
    health_address: tuple[str, int],
    log_format: str | None,
    log_level: str,
) -> None:
    """Bring about what the object `quintets/quintet` asks for, until SIGTERM or Ctrl-C."""
    placed = in_namespace(FLAVOURS[flavour], system_namespace, image)
    work = _run(config.load(kubeconfig, context), placed, elects(leader_elect), health_address)
    run_process(work, log_format, log_level)


async def _run(
    found: config.ClusterConfig, flavour: Flavour, elect: bool, health_address: tuple[str, int]
) -> None:
    clock = SystemClock()
    async with Transport(found) as transport:
        client = Client(transport)

        async def ask() -> OwnerReference | None:
            await client.version()  # a wrong address or a missing right is said now, in one line
            return await own_service_account(client, flavour.namespace) if config.in_pod() else None

        health = HealthServer(*health_address, clock)
        owner = await prepare(ask, health, clock, patient=elect)
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
