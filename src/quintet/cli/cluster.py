"""The commands up, down and kubectl: an embedded cluster by hand.

Called by `main`; goes on to `quintet.local.cluster`, which does the work.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from quintet.cli import output
from quintet.local import cluster
from quintet.local.build import versions
from quintet.local.errors import LocalError
from quintet.local.paths import DEFAULT_NAME

if TYPE_CHECKING:
    from quintet.local.cluster import Cluster

VARIABLE = "QUINTET_CLUSTER"
name_option = click.option(
    "--name",
    default=DEFAULT_NAME,
    envvar=VARIABLE,
    show_default=True,
    show_envvar=True,
    help="Which cluster; several can run side by side.",
)
kubernetes_option = click.option(
    "--kubernetes",
    type=click.Choice(list(versions.VERSIONS)),
    envvar=versions.VARIABLE,
    show_envvar=True,
    help=f"Which version of Kubernetes; {versions.DEFAULT.name} if none is named.",
)


@click.command(epilog="Exit codes: 0 it runs, 1 it failed, 2 it was called wrongly.")
@name_option
@click.option("--node", is_flag=True, help="Also start a real node, on which pods run (Linux, as root).")
@kubernetes_option
@click.option("--durable", is_flag=True, help="Have etcd write through to the disk; slower.")
@click.option("--audit", is_flag=True, help="Keep a log of who asked the API server for what.")
@click.option(
    "-o", "output_format", type=click.Choice(["json"]), help="Print the answer for a program to read."
)
def up(
    name: str, node: bool, kubernetes: str | None, durable: bool, audit: bool, output_format: str | None
) -> None:
    """Start an embedded Kubernetes cluster.

    The first time builds Kubernetes from its Go modules, which takes about ten minutes;
    afterwards a start takes seconds. A cluster that already runs is kept: programs of it that have
    ended are started again, and its node gets the images that have changed.
    """
    started = cluster.up(
        name, node=node, kubernetes=kubernetes, durable=durable, audited=audit, progress=output.progress
    )
    if output_format == "json":
        output.result_json(started.summary())
    else:
        output.result(_describe(started))


@click.command(epilog="Exit codes: 0 it is built, 1 it failed, 2 it was called wrongly.")
@click.option("--node", is_flag=True, help="Also what a node needs: its runtime, name server and images.")
@kubernetes_option
def build(node: bool, kubernetes: str | None) -> None:
    """Build what a cluster needs, without starting one; done once, then kept in the cache."""
    cluster.prepare(node=node, progress=output.progress, kubernetes=kubernetes)


@click.command(epilog="Exit codes: 0 nothing of it is left, 1 it failed, 2 it was called wrongly.")
@name_option
@click.option("--all", "every", is_flag=True, help="Stop every cluster of this user.")
def down(name: str, every: bool) -> None:
    """Stop an embedded cluster and remove everything of it."""
    stopped = cluster.down_all() if every else [name] if cluster.down(name) else []
    for each in stopped:
        output.progress(f"removed cluster {each}")
    if not stopped:
        output.progress("no cluster is running" if every else f"there is no cluster {name}")


@click.command(
    context_settings={
        "ignore_unknown_options": True,
        "help_option_names": [],
        "allow_interspersed_args": False,
    },
    add_help_option=False,
    options_metavar="[--name NAME --]",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def kubectl(arguments: tuple[str, ...]) -> None:
    """Run kubectl on an embedded cluster; every argument is kubectl's own.

    Another cluster than the default one: `quintet kubectl --name NAME -- get pods`,
    or set QUINTET_CLUSTER.
    """
    name, rest = _split(arguments)
    found = cluster.load_cluster(name)
    if found is None:
        raise LocalError(f"there is no cluster {name}", f"quintet up --name {name}")
    program = str(found.programs / "kubectl")
    os.execve(program, [program, *rest], found.environment)


def _split(arguments: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Take `--name NAME --` off the front: only there is it ours, as kubectl has no such flag."""
    if arguments[:1] == ("--name",) and len(arguments) > 1:
        name, rest = arguments[1], arguments[2:]
    elif arguments and arguments[0].startswith("--name="):
        name, rest = arguments[0].removeprefix("--name="), arguments[1:]
    else:
        return os.environ.get(VARIABLE) or DEFAULT_NAME, arguments
    return name, rest[1:] if rest[:1] == ("--",) else rest


def _describe(started: Cluster) -> str:
    flag = "" if started.name == DEFAULT_NAME else f" --name {started.name}"
    audited = (f"audit log   {started.audit_log}",) if started.audit_log else ()
    return "\n".join(
        (
            f"cluster     {started.name}, Kubernetes {started.version}",
            f"server      {started.server}",
            f"node        {started.node or 'none (add one with --node)'}",
            f"kubeconfig  {started.kubeconfig}",
            *audited,
            "",
            f"next        export KUBECONFIG={started.kubeconfig}",
            f"            quintet kubectl{flag and flag + ' --'} get all --all-namespaces",
            f"            quintet down{flag}",
        )
    )
