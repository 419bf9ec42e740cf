"""The verb dispatcher."""

from __future__ import annotations

import click

from quintet.cli.types import Address, SinkAddress
from quintet.cli.verbs.processes.dataplane import load_settings, log_options, run_process
from quintet.clock import SystemClock
from quintet.eventing.settings import DispatcherSettings
from quintet.observe import logging as logs


@click.command(epilog="Exit codes: 0 stopped by a signal, 1 failure, 2 usage error.")
@click.option(
    "--kubeconfig",
    help="Path to the kubeconfig; default: KUBECONFIG, the pod's ServiceAccount, ~/.kube/config.",
)
@click.option(
    "--address",
    type=Address(),
    default=":8080",
    show_default=True,
    help="The address that serves /healthz and /readyz.",
)
@click.option(
    "--metrics-address",
    type=Address(),
    default=":9090",
    show_default=True,
    help="The address that serves /metrics.",
)
@click.option(
    "--sink-address",
    "places",
    type=SinkAddress(),
    multiple=True,
    help="Connect to this address for a sink host; outside a cluster, Service names do not resolve.",
)
@log_options
def dispatcher(
    kubeconfig: str | None,
    address: tuple[str, int],
    metrics_address: tuple[str, int],
    places: tuple[tuple[str, tuple[str, int]], ...],
    log_format: str,
    log_level: str,
) -> None:
    """Deliver the events of a backend to the sinks of its Subscriptions.

    Runs in the pods of an EventingBackend, which set its configuration in QUINTET_EVENTING.
    """
    settings = load_settings(DispatcherSettings)
    logs.set_up(log_format, log_level)
    from quintet.eventing.dispatcher import process

    options = process.DispatcherOptions(
        kubeconfig=kubeconfig, address=address, metrics_address=metrics_address, sink_overrides=dict(places)
    )
    if not run_process(process.serve(settings, options, SystemClock())):
        raise click.ClickException("the connection to the backend failed permanently; see the log")
