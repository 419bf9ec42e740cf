"""The command itself: its options. Called by `main`; goes on to `course`, imported when it is needed."""

from __future__ import annotations

import click

from quintet.cli.install import CONTROLLERS

NAMES = ", ".join(CONTROLLERS)


def _names(_context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    asked = tuple(name.strip() for name in value.split(",") if name.strip())
    unknown = [name for name in asked if name not in CONTROLLERS]
    if unknown:
        raise click.BadParameter(f"there is no {unknown[0]!r}; there are: {NAMES}", param=parameter)
    return asked or CONTROLLERS


@click.command(
    epilog="Exit codes: 0 it worked, 1 it failed, 2 it was called wrongly, 130 it was interrupted."
)
@click.option("--keep", is_flag=True, help="Leave everything running to look around in.")
@click.option(
    "--only", metavar="NAMES", default="", callback=_names, help=f"Some of: {NAMES}; separated by commas."
)
def demo(keep: bool, only: tuple[str, ...]) -> None:
    """Install Quintet and show one working object of each kind.

    As root on Linux on an embedded cluster with a real node; otherwise with a control plane only,
    where the controllers make their objects but no pod runs. With KUBECONFIG set, on that cluster.
    """
    from quintet.cli.demo import course

    course.run(only, keep=keep)
