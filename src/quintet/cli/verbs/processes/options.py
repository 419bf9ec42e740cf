"""Options that the verbs run and operator share."""

from __future__ import annotations

import click

from quintet.cli.options import with_options
from quintet.cli.types import Address

process_options = with_options(
    (
        click.option(
            "--kubeconfig",
            help="Path to the kubeconfig; default: KUBECONFIG, the pod's ServiceAccount, ~/.kube/config.",
        ),
        click.option("--context", help="The context of the kubeconfig to use."),
        click.option("--leader-elect/--no-leader-elect", default=None, help="Default: only in a pod."),
        click.option(
            "--health-address",
            type=Address(),
            default="127.0.0.1:8081",
            show_default=True,
            help="The address that serves /healthz, /readyz and /metrics.",
        ),
        click.option(
            "--log-format", type=click.Choice(["json", "text"]), default=None, help="Default: json in a pod."
        ),
        click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="info",
            show_default=True,
        ),
    )
)
