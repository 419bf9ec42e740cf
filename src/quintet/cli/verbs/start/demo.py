"""The verb demo."""

from __future__ import annotations

import click

from quintet.cli import output
from quintet.cli.verbs.install.options import CONTROLLERS

NAMES = ", ".join(CONTROLLERS)


def _parse_names(_context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    chosen = tuple(name.strip() for name in value.split(",") if name.strip())
    unknown = [name for name in chosen if name not in CONTROLLERS]
    if unknown:
        raise click.BadParameter(f"unknown controller {unknown[0]!r}; choose from: {NAMES}", param=parameter)
    return chosen or CONTROLLERS


@click.command(epilog="Exit codes: 0 success, 1 failure, 2 usage error, 130 interrupted.")
@click.option("--keep", is_flag=True, help="Keep everything running afterwards.")
@click.option(
    "--only",
    metavar="NAMES",
    default="",
    callback=_parse_names,
    help=f"Only these controllers, separated by commas: {NAMES}.",
)
def demo(keep: bool, only: tuple[str, ...]) -> None:
    """Install Quintet and run one object of each kind, then clean up.

    As root on Linux, the demo runs on an embedded cluster with a node. Otherwise it runs on a control plane
    only, where the controllers create their objects but no pod runs. With KUBECONFIG set, it runs on that
    cluster.
    """
    from quintet.demo import plan

    plan.run(only, output.progress, output.result, keep=keep)
