"""The verb trend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import options, output
from quintet.inspect.session import connect
from quintet.inspect.tables import align_columns
from quintet.inspect.trend import (
    ASCII_BLOCKS,
    BLOCKS,
    sparkline_rows,
    trend_document,
    trend_of,
    trend_rows,
)

if TYPE_CHECKING:
    from quintet.apis.checkup import Checkup
    from quintet.inspect.session import Target


@click.command(epilog="Exit codes: 0 success; 1 failure; 2 usage error.")
@options.name_argument("Checkup")
@options.target_options
@click.option("--result", "names", multiple=True, metavar="NAME", help="Show this result only; repeatable.")
@options.output_option("json", "yaml")
def trend(name: str, target: Target, names: tuple[str, ...], form: str) -> None:
    """Show the runs of a Checkup, the oldest first, and how the numbers among its results have changed.

    The runs are those in status.history, which spec.successfulRunsHistoryLimit and
    spec.failedRunsHistoryLimit limit, and the last one.
    """
    found = trend_of(options.run(_read(name, target)), names)
    if form:
        output.result_as(form, trend_document(found))
        return
    if not found.runs:
        output.progress("no run has finished yet")
        return
    from quintet.clock import SystemClock

    blocks = BLOCKS if output.can_print(BLOCKS) else ASCII_BLOCKS
    for line in align_columns(trend_rows(found, SystemClock().now()), width=output.width()):
        output.result(line)
    output.result("")
    for line in align_columns(sparkline_rows(found, blocks), width=output.width()):
        output.result(line)
    if any(run.omitted for run in found.runs):
        output.progress("some results were too large for status.history")


async def _read(name: str, target: Target) -> Checkup:
    from quintet.apis.checkup import CHECKUPS, Checkup

    async with connect(target) as session:
        return await session.client.get(CHECKUPS, session.key(CHECKUPS, name), Checkup)
