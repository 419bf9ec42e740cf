"""Options of the verbs that work with embedded clusters."""

from __future__ import annotations

import click

from quintet.local.build import versions
from quintet.local.paths import DEFAULT_NAME

VARIABLE = "QUINTET_CLUSTER"
name_option = click.option(
    "--name",
    default=DEFAULT_NAME,
    envvar=VARIABLE,
    show_default=True,
    show_envvar=True,
    help="The name of the cluster; several clusters can run at the same time.",
)
kubernetes_option = click.option(
    "--kubernetes",
    type=click.Choice(list(versions.VERSIONS)),
    envvar=versions.VARIABLE,
    show_envvar=True,
    help=f"The version of Kubernetes; default: {versions.DEFAULT.name}.",
)
