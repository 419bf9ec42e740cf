"""The verb operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli.verbs.processes.options import process_options
from quintet.kube import config
from quintet.manifests.installation import FLAVOURS, QUINTET, in_namespace
from quintet.processes.metrics import MetricsOptions
from quintet.processes.operator import run_operator
from quintet.processes.startup import run_process, uses_leader_election

if TYPE_CHECKING:
    from pathlib import Path


@click.command(epilog="Exit codes: 0 stopped by a signal, 1 failure, 2 usage error.")
@click.option(
    "--flavour",
    type=click.Choice(list(FLAVOURS)),
    default=QUINTET.name,
    show_default=True,
    help="kiagnose: only the controller of Checkups, with the object names of the Kiagnose design.",
)
@click.option(
    "--image",
    envvar="QUINTET_IMAGE",
    default="",
    show_envvar=True,
    help="The default image of the controllers.",
)
@click.option("--system-namespace", envvar="POD_NAMESPACE", help="The namespace of the controllers.")
@process_options
def operator(
    kubeconfig: str | None,
    context: str | None,
    flavour: str,
    image: str,
    leader_elect: bool | None,
    system_namespace: str | None,
    health_address: tuple[str, int],
    metrics_address: tuple[str, int] | None,
    metrics_mode: str,
    metrics_certificates: Path | None,
    log_format: str | None,
    log_level: str,
) -> None:
    """Install and update the controllers that the object `quintets/quintet` specifies.

    Runs until SIGTERM or Ctrl-C.
    """
    placed = in_namespace(FLAVOURS[flavour], system_namespace, image)
    elect = uses_leader_election(leader_elect)
    metrics = MetricsOptions(address=metrics_address, mode=metrics_mode, certificates=metrics_certificates)
    work = run_operator(config.load(kubeconfig, context), placed, elect, health_address, metrics)
    run_process(work, log_format, log_level)
