"""The verb run."""

from __future__ import annotations

from pathlib import Path

import click

from quintet import imagenames
from quintet.admission.eventingbackend import NAMESPACE_LABEL
from quintet.apis.eventingbackend.types import ConfigErrors
from quintet.cli.types import Address, ControllerNames, NamespaceNames, Networks
from quintet.cli.verbs.processes.options import process_options
from quintet.components import COMPONENTS, INSTANCE
from quintet.processes.controllers import CERTIFICATES, RunOptions, run_controllers
from quintet.processes.metrics import MetricsOptions
from quintet.processes.startup import run_process


@click.command(epilog="Exit codes: 0 stopped by a signal, 1 failure, 2 usage error.")
@click.option(
    "--controllers",
    type=ControllerNames(),
    default=",".join(COMPONENTS),
    show_default=True,
    help="The controllers to run, separated by commas.",
)
@click.option(
    "--namespace",
    "namespaces",
    type=NamespaceNames(),
    default="",
    help="Watch only these namespaces, separated by commas. Default: all.",
)
@click.option(
    "--instance",
    default=INSTANCE,
    show_default=True,
    help="The name of the Deployment of this process; its Lease, ServiceAccount and webhooks have the "
    "same name.",
)
@click.option(
    "--system-namespace",
    envvar="POD_NAMESPACE",
    help="The namespace of the Lease and the webhook certificates.",
)
@click.option(
    "--webhooks",
    type=click.Choice(["auto", "service", "url", "files", "off"]),
    default="auto",
    show_default=True,
    help="service: reached through a Service (in a pod); url: reached at --webhook-host (outside a cluster); "
    "files: with certificates of cert-manager or OLM; auto: service in a pod, otherwise off.",
)
@click.option("--webhook-port", default=9443, show_default=True, help="The port of the webhook server.")
@click.option(
    "--webhook-host",
    default="127.0.0.1",
    show_default=True,
    help="With url: the host at which the API server reaches this process.",
)
@click.option(
    "--webhook-certificates",
    type=click.Path(path_type=Path),
    default=CERTIFICATES,
    show_default=True,
    help="With files: the directory with tls.crt and tls.key.",
)
@click.option(
    "--inject-ca-from", default="", help="With files: namespace/name of the cert-manager Certificate."
)
@click.option(
    "--json-server-image",
    envvar="QUINTET_JSON_SERVER_IMAGE",
    default=imagenames.JSON_SERVER,
    show_default=True,
    show_envvar=True,
    help="The default image of JsonServers.",
)
@click.option(
    "--eventing-config-errors",
    type=click.Choice([mode.value for mode in ConfigErrors]),
    default=ConfigErrors.WARN.value,
    show_default=True,
    help="What webhooks do about errors in spec.config of an EventingBackend; the namespace label "
    f"{NAMESPACE_LABEL} overrides it.",
)
@click.option(
    "--discovery-address",
    type=Address(),
    default="127.0.0.1:8082",
    show_default=True,
    help="The address that serves /backend: the backend types and their configuration options.",
)
@click.option(
    "--eventing-image",
    envvar="QUINTET_EVENTING_IMAGE",
    default=imagenames.QUINTET,
    show_default=True,
    show_envvar=True,
    help="The image of publishers and dispatchers.",
)
@click.option(
    "--nats-image",
    envvar="QUINTET_NATS_IMAGE",
    default=imagenames.NATS,
    show_default=True,
    show_envvar=True,
    help="The image of the NATS servers of backends.",
)
@click.option(
    "--eventing-refused-networks",
    type=Networks(),
    default="",
    help="Networks to which no EventingBackend may connect, besides loopback, link-local and the API server.",
)
@click.option(
    "--eventing-allowed-networks",
    type=Networks(),
    default="",
    help="Networks to which an EventingBackend may connect, although they are refused otherwise.",
)
@click.option(
    "--workers",
    default=8,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Concurrent reconciles of each controller.",
)
@process_options
def run(
    log_format: str | None,
    log_level: str,
    metrics_address: tuple[str, int] | None,
    metrics_mode: str,
    metrics_certificates: Path | None,
    **options: object,
) -> None:
    """Run controllers and their webhooks until SIGTERM or Ctrl-C.

    In a pod, it elects a leader and serves webhooks through a Service. On a developer's machine, it runs
    without leader election; `--webhooks url` registers its webhooks while it runs.
    """
    metrics = MetricsOptions(address=metrics_address, mode=metrics_mode, certificates=metrics_certificates)
    work = run_controllers(RunOptions(metrics=metrics, **options))  # type: ignore[arg-type]  # click has checked the types
    run_process(work, log_format, log_level)
