"""The verb up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from quintet.cli import output
from quintet.cli.verbs.start.options import kubernetes_option, name_option
from quintet.local import cluster
from quintet.local.node.layout import MAXIMUM
from quintet.local.paths import DEFAULT_NAME

if TYPE_CHECKING:
    from quintet.local.cluster import Cluster

ZONE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def split_zones(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Return the zones of a comma-separated list; each becomes the value of a label."""
    zones = tuple((value or "").split(",")) if value is not None else ()
    for zone in zones:
        if not ZONE.fullmatch(zone):
            raise click.BadParameter(f"'{zone}' is not the value of a label", context, parameter)
    return zones


@click.command(epilog="Exit codes: 0 the cluster runs, 1 failure, 2 usage error.")
@name_option
@click.option("--node", is_flag=True, help="Also start a node that runs pods (Linux, as root): --nodes 1.")
@click.option("--nodes", type=click.IntRange(1, MAXIMUM), help="Also start this number of nodes.")
@click.option("--zones", callback=split_zones, help="The zones of the nodes, in turn, such as a,b,c.")
@kubernetes_option
@click.option("--durable", is_flag=True, help="Let etcd sync every write to disk (slower).")
@click.option("--audit", is_flag=True, help="Write an audit log of the API server.")
@click.option("-o", "output_format", type=click.Choice(["json"]), help="Print the cluster as JSON.")
def up(
    name: str,
    node: bool,
    nodes: int | None,
    zones: tuple[str, ...],
    kubernetes: str | None,
    durable: bool,
    audit: bool,
    output_format: str | None,
) -> None:
    """Start an embedded Kubernetes cluster.

    The first start builds Kubernetes from its Go modules, which takes about ten minutes; later starts take
    seconds. If the cluster already runs, programs that have ended are restarted and changed images are
    loaded into its node.
    """
    count = nodes or int(node)
    if len(zones) > count:
        raise click.UsageError(f"{len(zones)} zones need at least {len(zones)} nodes: --nodes {len(zones)}")
    started = cluster.up(
        name,
        nodes=count,
        zones=zones,
        kubernetes=kubernetes,
        durable=durable,
        audited=audit,
        progress=output.progress,
    )
    if output_format == "json":
        output.result_json(started.summary())
    else:
        output.result(_describe(started))


def _describe(started: Cluster) -> str:
    flag = "" if started.name == DEFAULT_NAME else f" --name {started.name}"
    nodes = ", ".join(started.nodes) or "none (add one with --node)"
    audited = (f"audit log   {started.audit_log}",) if started.audit_log else ()
    return "\n".join(
        (
            f"cluster     {started.name}, Kubernetes {started.version}",
            f"server      {started.server}",
            f"{'nodes' if len(started.nodes) > 1 else 'node '}       {nodes}",
            f"kubeconfig  {started.kubeconfig}",
            *audited,
            "",
            f"next        export KUBECONFIG={started.kubeconfig}",
            f"            quintet kubectl{flag and flag + ' --'} get all --all-namespaces",
            f"            quintet down{flag}",
        )
    )
