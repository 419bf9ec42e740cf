"""The verb undo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import options, output
from quintet.inspect.session import connect

if TYPE_CHECKING:
    from quintet.inspect.session import Target


@click.command(epilog="Exit codes: 0 undo was requested and, with -w, is complete; 1 failure; 2 usage error.")
@options.name_argument("CASConfig")
@options.target_options
@click.option("-w", "--wait", "wait", is_flag=True, help="Wait until all targets are restored.")
@click.option("--timeout", default=300.0, show_default=True, help="Seconds to wait with -w.")
@click.option("--dry-run", is_flag=True, help="Print what would be undone, after a server-side dry run.")
def undo(name: str, target: Target, wait: bool, timeout: float, dry_run: bool) -> None:
    """Undo the changes of a CASConfig on its targets; the CASConfig stays.

    Sets spec.mode: Preview: the controller undoes everything and then only reports in status.plan what it
    would change. Nothing is changed again until spec.mode is Apply. If the manifest is applied from a
    repository, change it there.
    """
    output.result(options.run(_undo(name, target, timeout if wait else 0.0, dry_run=dry_run)))


async def _undo(name: str, target: Target, timeout: float, *, dry_run: bool) -> str:
    from quintet.actions.undo import undo_casconfig
    from quintet.apis.casconfig import CASCONFIGS

    async with connect(target) as session:
        key = session.key(CASCONFIGS, name)
        return await undo_casconfig(session.client, key, output.progress, timeout=timeout, dry_run=dry_run)
