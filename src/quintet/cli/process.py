"""The options of every process with controllers: which cluster, who leads, where it is asked, its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

from quintet.cli.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Callable

Command = TypeVar("Command", bound="Callable[..., None]")

_OPTIONS = (
    click.option("--kubeconfig", help="Which cluster; default: KUBECONFIG, the pod's own, ~/.kube/config."),
    click.option("--context", help="Which context of the kubeconfig."),
    click.option("--leader-elect/--no-leader-elect", default=None, help="Default: only in a pod."),
    click.option(
        "--health-address",
        type=Address(),
        default="127.0.0.1:8081",
        show_default=True,
        help="/healthz, /readyz, /metrics.",
    ),
    click.option(
        "--log-format", type=click.Choice(["json", "text"]), default=None, help="Default: json in a pod."
    ),
    click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info"),
)


def process_options(command: Command) -> Command:
    """Add them to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
