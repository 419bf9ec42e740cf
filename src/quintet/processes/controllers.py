"""The process that runs controllers and their webhooks, on a developer's machine or in a pod."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quintet.apis.eventingbackend.types import ConfigErrors
from quintet.apis.meta import ObjectKey
from quintet.clock import Clock, SystemClock
from quintet.components import COMPONENTS, Settings, webhook_service
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.service_account import own_service_account
from quintet.kube.transport import Transport
from quintet.observe.health import HealthServer
from quintet.processes.eventing_options import eventing_options
from quintet.processes.metrics import MetricsOptions, serving_metrics
from quintet.processes.startup import identity, prepare, uses_leader_election
from quintet.runtime.leader import Terms
from quintet.runtime.manager import Manager

if TYPE_CHECKING:
    from quintet.admission.review import Admission
    from quintet.admission.webhooks import Webhooks
    from quintet.apis.meta import OwnerReference
    from quintet.controllers.eventingbackend.options import Options as EventingOptions

# OLM mounts the certificates here.
CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of the process."""

    kubeconfig: str | None
    context: str | None
    controllers: tuple[str, ...]
    instance: str
    namespaces: tuple[str, ...]
    leader_elect: bool | None
    system_namespace: str | None
    health_address: tuple[str, int]
    metrics: MetricsOptions
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


async def run_controllers(options: RunOptions) -> None:
    """Run the chosen controllers and their webhooks until a signal stops the process."""
    found = config.load(options.kubeconfig, options.context)
    clock = SystemClock()
    system = options.system_namespace or found.namespace
    elect = uses_leader_election(options.leader_elect)
    components = [COMPONENTS[name] for name in options.controllers]
    health = HealthServer(*options.health_address, clock, metrics=options.metrics.address is None)
    async with contextlib.AsyncExitStack() as stack:
        client = Client(await stack.enter_async_context(Transport(found)))
        await stack.enter_async_context(serving_metrics(options.metrics, client, clock))

        async def read_cluster() -> tuple[OwnerReference | None, EventingOptions | None]:
            await client.version()  # fails early on a wrong address or missing permission
            owner = await own_service_account(client, system) if config.in_pod() else None
            return owner, await _eventing_options(options, client, found.server, system)

        owner, backends = await prepare(read_cluster, health, clock, patient=elect)
        manager = Manager(
            client,
            clock,
            identity(),
            lease=ObjectKey(system, options.instance) if elect else None,
            terms=Terms(owner=owner),
            namespaces=options.namespaces,
            health=health,
        )
        settings = _settings(options, backends)
        for component in components:
            component.start(manager, settings)
        admissions = [each for component in components for each in component.admissions(settings)]
        webhooks = _webhooks(options, admissions, client, manager, clock, system, owner)
        for component in components:
            for server in component.serve(settings, clock):
                await stack.enter_async_context(server)
        if webhooks is not None:
            health.readiness["webhooks"] = webhooks.readiness_problem
            await stack.enter_async_context(webhooks.running())
        await manager.run()


async def _eventing_options(
    options: RunOptions, client: Client, server: str, system: str
) -> EventingOptions | None:
    if "eventing" not in options.controllers:
        return None
    return await eventing_options(
        client,
        server,
        system_namespace=system,
        account=options.instance,
        image=options.eventing_image,
        nats_image=options.nats_image,
        refused=options.eventing_refused_networks,
        allowed=options.eventing_allowed_networks,
    )


def _settings(options: RunOptions, backends: EventingOptions | None) -> Settings:
    return Settings(
        options.json_server_image,
        options.workers,
        ConfigErrors(options.eventing_config_errors),
        options.discovery_address,
        backends,
        # On a developer's machine no namespace belongs to Quintet.
        system_namespace=options.system_namespace or "",
    )


def _webhooks(
    options: RunOptions,
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
    # These need 10 MB more memory for certificates.
    from quintet.admission import modes
    from quintet.admission.registration import select_namespaces

    selector = select_namespaces(options.namespaces)
    if mode == "url":
        return modes.by_url(
            admissions, client, clock, host=options.webhook_host, port=port, namespace_selector=selector
        )
    if mode == "service":
        return modes.by_service(
            admissions,
            client,
            manager.client,
            clock,
            service=service,
            port=port,
            name=name,
            owner=owner,
            namespace_selector=selector,
        )
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
        namespace_selector=selector,
    )
