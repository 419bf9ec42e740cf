"""Options that the verbs run and operator share."""

from __future__ import annotations

from pathlib import Path

import click

from quintet.cli.options import with_options
from quintet.cli.types import Address
from quintet.processes.metrics import PLAIN, SECURE

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
            help="The address that serves /healthz and /readyz, and /metrics without --metrics-address.",
        ),
        click.option("--metrics-address", type=Address(), help="The address that serves /metrics."),
        click.option(
            "--metrics",
            "metrics_mode",
            type=click.Choice([SECURE, PLAIN]),
            default=SECURE,
            show_default=True,
            help="secure: with TLS, for bearer tokens of users who may get the path /metrics; "
            "plain: for everybody. Applies to --metrics-address.",
        ),
        click.option(
            "--metrics-certificates",
            type=click.Path(path_type=Path),
            help="The directory with tls.crt and tls.key for secure metrics; default: self-signed.",
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
