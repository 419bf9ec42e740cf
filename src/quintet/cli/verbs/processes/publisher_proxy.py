"""The verb publisher-proxy."""

from __future__ import annotations

import click

from quintet.cli.types import Address
from quintet.cli.verbs.processes.dataplane import load_settings, log_options, run_process
from quintet.clock import SystemClock
from quintet.eventing.settings import VARIABLE, PublisherSettings
from quintet.observe import logging as logs


@click.command("publisher-proxy", epilog="Exit codes: 0 stopped by a signal, 1 failure, 2 usage error.")
@click.option(
    "--address", type=Address(), default=":8080", show_default=True, help="The address that receives events."
)
@click.option(
    "--metrics-address",
    type=Address(),
    default=":9090",
    show_default=True,
    help="The address that serves /metrics.",
)
@click.option(
    "--leave-seconds",
    type=click.FloatRange(0, 300),
    default=5.0,
    show_default=True,
    help="How long to serve requests after SIGTERM while /readyz already fails.",
)
@click.option(
    "--grace-seconds",
    type=click.FloatRange(0, 300),
    default=45.0,
    show_default=True,
    help="How long requests in progress may take after that.",
)
@log_options
def publisher_proxy(
    address: tuple[str, int],
    metrics_address: tuple[str, int],
    leave_seconds: float,
    grace_seconds: float,
    log_format: str,
    log_level: str,
) -> None:
    """Receive CloudEvents at POST /publish and respond when the backend has stored them.

    Runs in the pods of an EventingBackend, which set its configuration in QUINTET_EVENTING.
    """
    settings = load_settings(PublisherSettings)
    if (settings.nats is None) == (settings.beb is None):
        raise click.ClickException(f"{VARIABLE} must name one backend: nats or beb")
    logs.set_up(log_format, log_level)
    from quintet.eventing.publisher import process

    options = process.PublisherOptions(
        address=address,
        metrics_address=metrics_address,
        leave_seconds=leave_seconds,
        grace_seconds=grace_seconds,
    )
    if not run_process(process.serve(settings, options, SystemClock())):
        raise click.ClickException("the connection to the backend failed permanently; see the log")
