"""What every process with controllers has: its options, its log, its event loop.

Called by `run` and `operator`.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from typing import TYPE_CHECKING, Any

import click
import uvloop

from quintet.cli.addresses import Address
from quintet.cli.options import with_options
from quintet.kube import config
from quintet.observe import logging as logs

if TYPE_CHECKING:
    from collections.abc import Coroutine

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
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
    ),
)
process_options = with_options(_OPTIONS)


def identity() -> str:
    """By which this process is known to the others of its installation."""
    return f"{socket.gethostname()}-{secrets.token_hex(4)}"


def elects(asked: bool | None) -> bool:
    """Whether there may be other replicas."""
    return asked if asked is not None else config.in_pod()


def run_process(work: Coroutine[Any, Any, None], log_format: str | None, log_level: str) -> None:
    """Run until it ends, or is told to."""
    logs.set_up(log_format or ("json" if config.in_pod() else "text"), log_level)
    # TLS and sockets in C take a tenth less of our time, and less memory (docs/adr/0012).
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)
