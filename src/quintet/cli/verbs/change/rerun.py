"""The verb rerun."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import options, output
from quintet.inspect.session import connect

if TYPE_CHECKING:
    from quintet.inspect.session import Target


@click.command(
    epilog="Exit codes: 0 the run was requested and, with -w, passed; 1 it did not pass, or failure; "
    "2 usage error."
)
@options.name_argument("Checkup")
@options.target_options
@click.option("-w", "--wait", "wait", is_flag=True, help="Wait for the end of the run and print its verdict.")
@click.option("--timeout", default=600.0, show_default=True, help="Seconds to wait with -w.")
@options.dry_run_option
def rerun(name: str, target: Target, wait: bool, timeout: float, dry_run: bool) -> None:
    """Run a Checkup again, after the current run has ended.

    The new run has its own Job, ConfigMap and permissions; the result of the run before is kept in
    status.history.
    """
    verdict = options.run(_rerun(name, target, timeout if wait else 0.0, dry_run=dry_run))
    if verdict is not None:
        passed, line = verdict
        output.result(line)
        raise click.exceptions.Exit(0 if passed else 1)


async def _rerun(name: str, target: Target, timeout: float, *, dry_run: bool) -> tuple[bool, str] | None:
    from quintet.actions.rerun import rerun_checkup
    from quintet.apis.checkup import CHECKUPS

    async with connect(target) as session:
        key = session.key(CHECKUPS, name)
        return await rerun_checkup(session.client, key, output.progress, timeout=timeout, dry_run=dry_run)
