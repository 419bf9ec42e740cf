"""The verb logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import options, output
from quintet.inspect.session import connect

if TYPE_CHECKING:
    from quintet.inspect.kinds import ObjectName
    from quintet.inspect.session import Target

CONTROLLER = "controller"


@click.command(epilog=options.WATCH_EXIT_CODES)
@options.object_argument("KIND NAME | controller NAME")
@options.target_options
@click.option("-f", "--follow", is_flag=True, help="Keep printing, including pods that start later.")
@click.option(
    "--tail", type=click.IntRange(min=0), default=200, show_default=True, help="Lines of each container."
)
@click.option("-p", "--previous", is_flag=True, help="The logs before the last restart of each container.")
def logs(typed: tuple[str, ...], target: Target, follow: bool, tail: int, previous: bool) -> None:
    """Print the logs of the pods of an object: all containers, each line prefixed with its pod.

    `quintet logs controller NAME` prints the logs of a controller; NAME `operator` is the operator.
    """
    if follow and previous:
        raise click.UsageError("-p prints logs that no longer grow: omit -f")
    if typed[0] == CONTROLLER:
        options.run(_print_controller(target, typed[1:], follow, tail, previous))
    else:
        options.run(_print_object(target, options.parse_object(typed), follow, tail, previous))


async def _print_object(target: Target, named: ObjectName, follow: bool, tail: int, previous: bool) -> None:
    from quintet.inspect.logs import LogPrinter

    async with connect(target) as session:
        printer = LogPrinter(session.client, output.result, output.progress, tail)
        key = session.key(named.kind.resource, named.name)
        if follow:
            await printer.follow_object(named, key)
        else:
            await printer.print_object(named, key, previous=previous)


async def _print_controller(
    target: Target, names: tuple[str, ...], follow: bool, tail: int, previous: bool
) -> None:
    from quintet.inspect.logs import CONTROLLERS, LogPrinter
    from quintet.manifests.rbac import SYSTEM_NAMESPACE

    if len(names) != 1 or names[0] not in CONTROLLERS:
        raise click.UsageError(f"name one controller: {', '.join(CONTROLLERS)}")
    namespace = target.namespace or SYSTEM_NAMESPACE
    async with connect(target) as session:
        printer = LogPrinter(session.client, output.result, output.progress, tail)
        if follow:
            await printer.follow_controller(names[0], namespace)
        else:
            await printer.print_controller(names[0], namespace, previous=previous)
