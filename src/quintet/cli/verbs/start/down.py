"""The verb down."""

from __future__ import annotations

import click

from quintet.cli import output
from quintet.cli.verbs.start.options import name_option
from quintet.local import cluster


@click.command(epilog="Exit codes: 0 the cluster is deleted or does not exist, 1 failure, 2 usage error.")
@name_option
@click.option("--all", "every", is_flag=True, help="Stop all clusters of this user.")
def down(name: str, every: bool) -> None:
    """Stop an embedded cluster and delete its data."""
    stopped = cluster.down_all() if every else [name] if cluster.down(name) else []
    for each in stopped:
        output.progress(f"deleted cluster {each}")
    if not stopped:
        output.progress("no cluster is running" if every else f"there is no cluster {name}")
