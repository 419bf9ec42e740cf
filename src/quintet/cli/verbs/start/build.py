"""The verb build."""

from __future__ import annotations

import click

from quintet.cli import output
from quintet.cli.verbs.start.options import kubernetes_option
from quintet.local import cluster


@click.command(epilog="Exit codes: 0 the programs are built, 1 failure, 2 usage error.")
@click.option(
    "--node", is_flag=True, help="Also build the container runtime, DNS server and images of a node."
)
@kubernetes_option
def build(node: bool, kubernetes: str | None) -> None:
    """Build the programs of an embedded cluster without starting it; the result stays in the cache."""
    cluster.prepare(node=node, progress=output.progress, kubernetes=kubernetes)
