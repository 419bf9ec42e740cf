"""The verb up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import output
from quintet.cli.verbs.start.options import kubernetes_option, name_option
from quintet.local import cluster
from quintet.local.paths import DEFAULT_NAME

if TYPE_CHECKING:
    from quintet.local.cluster import Cluster


@click.command(epilog="Exit codes: 0 the cluster runs, 1 failure, 2 usage error.")
@name_option
@click.option("--node", is_flag=True, help="Also start a node that runs pods (Linux, as root).")
@kubernetes_option
@click.option("--durable", is_flag=True, help="Let etcd sync every write to disk (slower).")
@click.option("--audit", is_flag=True, help="Write an audit log of the API server.")
@click.option("-o", "output_format", type=click.Choice(["json"]), help="Print the cluster as JSON.")
def up(
    name: str, node: bool, kubernetes: str | None, durable: bool, audit: bool, output_format: str | None
) -> None:
    """Start an embedded Kubernetes cluster.

    The first start builds Kubernetes from its Go modules, which takes about ten minutes; later starts take
    seconds. If the cluster already runs, programs that have ended are restarted and changed images are
    loaded into its node.
    """
    started = cluster.up(
        name, node=node, kubernetes=kubernetes, durable=durable, audited=audit, progress=output.progress
    )
    if output_format == "json":
        output.result_json(started.summary())
    else:
        output.result(_describe(started))


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
