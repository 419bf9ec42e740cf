"""The command run: the operator process, on a developer's machine or in a pod.

Called by `main`. Reads options, makes the parts and hands over to `runtime.manager`; what the
controllers do begins in `components`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quintet import imagenames
from quintet.admission.eventingbackend import NAMESPACE_LABEL
from quintet.apis.eventingbackend.types import ConfigErrors
from quintet.apis.meta import ObjectKey
from quintet.cli import eventing
from quintet.cli.addresses import Address
from quintet.cli.process import elects, identity, prepare, process_options, run_process
from quintet.clock import Clock, SystemClock
from quintet.components import COMPONENTS, INSTANCE, Settings, webhook_service
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.service_account import own_service_account
from quintet.kube.transport import Transport
from quintet.observe.health import HealthServer
from quintet.runtime.leader import Terms
from quintet.runtime.manager import Manager

if TYPE_CHECKING:
    from quintet.admission.review import Admission
    from quintet.admission.webhooks import Webhooks
    from quintet.apis.meta import OwnerReference
    from quintet.controllers.eventingbackend.options import Options as EventingOptions

# Where OLM puts them.
CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for on the command line."""

    kubeconfig: str | None
    context: str | None
    controllers: tuple[str, ...]
    instance: str
    namespace: str
    leader_elect: bool | None
    system_namespace: str | None
    health_address: tuple[str, int]
    webhooks: str
    webhook_port: int
    webhook_host: str
    webhook_certificates: Path
    inject_ca_from: str
    json_server_image: str
    workers: int
    eventing_config_errors: str
    discovery_address: tuple[str, int]
    eventing_image: str
    nats_image: str
    eventing_refused_networks: tuple[str, ...]
    eventing_allowed_networks: tuple[str, ...]


class _Names(click.ParamType[tuple[str, ...]]):
    """A list of controllers, separated by commas."""

    name = "names"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(name.strip() for name in value.split(",") if name.strip())
        for name in names:
            if name not in COMPONENTS:
                self.fail(f"there is no controller {name!r}; there are: {', '.join(COMPONENTS)}", param, ctx)
        return names


@click.command(epilog="Exit codes: 0 asked to stop, 1 it failed, 2 it was called wrongly.")
@click.option(
    "--controllers",
    type=_Names(),
    default=",".join(COMPONENTS),
    show_default=True,
    help="Which controllers run, separated by commas.",
)
@click.option("--namespace", default="", help="Look at one namespace only; default: all.")
@click.option(
    "--instance",
    default=INSTANCE,
    show_default=True,
    help="The name of the installation's part that this process is a replica of: of its lease, its account "
    "and its webhooks.",
)
@click.option(
    "--system-namespace", envvar="POD_NAMESPACE", help="Where the lease and the certificates are kept."
)
@click.option(
    "--webhooks",
    type=click.Choice(["auto", "service", "url", "files", "off"]),
    default="auto",
    show_default=True,
    help="service: in a pod; url: on a developer's machine; files: certificates of cert-manager or OLM; "
    "auto: service in a pod, else off.",
)
@click.option("--webhook-port", default=9443, show_default=True, help="Where the API server asks.")
@click.option(
    "--webhook-host", default="127.0.0.1", show_default=True, help="With url: where we are reached."
)
@click.option(
    "--webhook-certificates",
    type=click.Path(path_type=Path),
    default=CERTIFICATES,
    show_default=True,
    help="With files: the folder with tls.crt and tls.key.",
)
@click.option(
    "--inject-ca-from", default="", help="With files: namespace/name of the Certificate of cert-manager."
)
@click.option(
    "--json-server-image",
    envvar="QUINTET_JSON_SERVER_IMAGE",
    default=imagenames.JSON_SERVER,
    show_default=True,
    show_envvar=True,
    help="What JsonServers run unless they say otherwise.",
)
@click.option(
    "--eventing-config-errors",
    type=click.Choice([mode.value for mode in ConfigErrors]),
    default=ConfigErrors.WARN.value,
    show_default=True,
    help="What webhooks do about mistakes in spec.config of an EventingBackend; the label "
    f"{NAMESPACE_LABEL} of a namespace beats it.",
)
@click.option(
    "--discovery-address",
    type=Address(),
    default="127.0.0.1:8082",
    show_default=True,
    help="/backend: which types of backend there are and what they can be told.",
)
@click.option(
    "--eventing-image",
    envvar="QUINTET_EVENTING_IMAGE",
    default=imagenames.QUINTET,
    show_default=True,
    show_envvar=True,
    help="What publishers and dispatchers run.",
)
@click.option(
    "--nats-image",
    envvar="QUINTET_NATS_IMAGE",
    default=imagenames.NATS,
    show_default=True,
    show_envvar=True,
    help="What NATS servers of backends run.",
)
@click.option(
    "--eventing-refused-networks",
    type=eventing.Networks(),
    default="",
    help="Where no EventingBackend may be, in addition to loopback, link-local and the API server.",
)
@click.option(
    "--eventing-allowed-networks",
    type=eventing.Networks(),
    default="",
    help="Where an EventingBackend may be all the same.",
)
@click.option("--workers", default=8, show_default=True, type=click.IntRange(1, 64), help="Per controller.")
@process_options
def run(log_format: str | None, log_level: str, **options: object) -> None:
    """Run controllers and their webhooks until SIGTERM or Ctrl-C.

    In a pod it elects a leader and is reached through a Service; on a
    developer's machine it runs alone, and with `--webhooks url` registers itself while it runs.
    """
    work = _run(Options(**options))  # type: ignore[arg-type]  # click has checked them
    run_process(work, log_format, log_level)


async def _run(options: Options) -> None:
    found = config.load(options.kubeconfig, options.context)
    clock = SystemClock()
    system = options.system_namespace or found.namespace
    elect = elects(options.leader_elect)
    components = [COMPONENTS[name] for name in options.controllers]
    health = HealthServer(*options.health_address, clock)
    async with Transport(found) as transport:
        client = Client(transport)

        async def ask() -> tuple[OwnerReference | None, EventingOptions | None]:
            await client.version()  # a wrong address or a missing right is said now, in one line
            owner = await own_service_account(client, system) if config.in_pod() else None
            return owner, await _eventing(options, client, found.server, system)

        owner, backends = await prepare(ask, health, clock, patient=elect)
        manager = Manager(
            client,
            clock,
            identity(),
            lease=ObjectKey(system, options.instance) if elect else None,
            terms=Terms(owner=owner),
            namespace=options.namespace,
            health=health,
        )
        settings = _settings(options, backends)
        for component in components:
            component.start(manager, settings)
        admissions = [each for component in components for each in component.admissions(settings)]
        webhooks = _webhooks(options, admissions, client, manager, clock, system, owner)
        async with contextlib.AsyncExitStack() as stack:
            for component in components:
                for server in component.serve(settings, clock):
                    await stack.enter_async_context(server)
            if webhooks is not None:
                health.readiness["webhooks"] = webhooks.readiness_problem
                await stack.enter_async_context(webhooks.running())
            await manager.run()


async def _eventing(options: Options, client: Client, server: str, system: str) -> EventingOptions | None:
    if "eventing" not in options.controllers:
        return None
    return await eventing.options(
        client,
        server,
        system_namespace=system,
        account=options.instance,
        image=options.eventing_image,
        nats_image=options.nats_image,
        refused=options.eventing_refused_networks,
        allowed=options.eventing_allowed_networks,
    )


def _settings(options: Options, backends: EventingOptions | None) -> Settings:
    return Settings(
        options.json_server_image,
        options.workers,
        ConfigErrors(options.eventing_config_errors),
        options.discovery_address,
        backends,
        # On a developer's machine the default namespace is nobody's home.
        system_namespace=options.system_namespace or "",
    )


def _webhooks(
    options: Options,
    admissions: list[Admission],
    client: Client,
    manager: Manager,
    clock: Clock,
    system: str,
    owner: OwnerReference | None,
) -> Webhooks | None:
    name, port = options.instance, options.webhook_port
    service = ObjectKey(system, webhook_service(name))
    mode = options.webhooks if options.webhooks != "auto" else ("service" if config.in_pod() else "off")
    if mode == "off":
        return None
    from quintet.admission import modes  # making certificates takes 10 MB that no other process needs

    match mode:
        case "service":
            return modes.by_service(
                admissions, client, manager.client, clock, service=service, port=port, name=name, owner=owner
            )
        case "url":
            return modes.by_url(admissions, client, clock, host=options.webhook_host, port=port)
        case "files":
            certificate = options.inject_ca_from
            return modes.by_files(
                admissions,
                manager.client,
                clock,
                folder=options.webhook_certificates,
                service=service if certificate else None,
                certificate=certificate,
                port=port,
                name=name,
            )
    return None
