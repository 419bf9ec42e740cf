"""The verb kubectl."""

from __future__ import annotations

import os

import click

from quintet.cli.verbs.start.options import VARIABLE
from quintet.local import cluster
from quintet.local.errors import LocalError
from quintet.local.paths import DEFAULT_NAME


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
    """Run kubectl against an embedded cluster; all arguments are passed to kubectl.

    To choose another cluster than the default, run `quintet kubectl --name NAME -- get pods` or set
    QUINTET_CLUSTER.
    """
    name, rest = split_name(arguments)
    found = cluster.load_cluster(name)
    if found is None:
        raise LocalError(f"there is no cluster {name}", f"quintet up --name {name}")
    program = str(found.programs / "kubectl")
    os.execve(program, [program, *rest], found.environment)


def split_name(arguments: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the name of the cluster and the arguments of kubectl.

    Only a leading `--name NAME --` is ours: kubectl has no such flag.
    """
    if arguments[:1] == ("--name",) and len(arguments) > 1:
        name, rest = arguments[1], arguments[2:]
    elif arguments and arguments[0].startswith("--name="):
        name, rest = arguments[0].removeprefix("--name="), arguments[1:]
    else:
        return os.environ.get(VARIABLE) or DEFAULT_NAME, arguments
    return name, rest[1:] if rest[:1] == ("--",) else rest
