"""The verb node."""

from __future__ import annotations

import click

from quintet.cli import output
from quintet.cli.verbs.start.options import name_option
from quintet.local import nodes

node_argument = click.argument("node_name", metavar="NODE")


@click.group(epilog="NODE is the name of a node, or its number in the cluster of --name.")
def node() -> None:
    """Stop, start, disconnect or connect a node of an embedded cluster."""


@node.command()
@node_argument
@name_option
def stop(node_name: str, name: str) -> None:
    """Kill every process of a node, as if its power failed; its volumes and images stay."""
    stopped = nodes.stop(node_name, name)
    output.progress(f"stopped node {stopped.name}: `quintet node start {stopped.name}` starts it again")


@node.command()
@node_argument
@name_option
def start(node_name: str, name: str) -> None:
    """Start a stopped node and wait until it is Ready."""
    started = nodes.start(node_name, name, output.progress)
    output.progress(f"node {started.name} is Ready")


@node.command()
@node_argument
@name_option
def partition(node_name: str, name: str) -> None:
    """Disconnect a node from the control plane and the other nodes; its pods go on running."""
    cut = nodes.partition(node_name, name)
    output.progress(f"disconnected node {cut.name}: `quintet node heal {cut.name}` connects it again")


@node.command()
@node_argument
@name_option
def heal(node_name: str, name: str) -> None:
    """Connect a disconnected node again."""
    healed = nodes.heal(node_name, name)
    output.progress(f"connected node {healed.name}")
