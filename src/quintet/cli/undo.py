"""The command undo: takes what a CASConfig has set out of its targets; the config itself stays.

Called by `main`. It sets `spec.mode: Preview`, which makes the controller take back what it set and
then only say what it would set. So nothing comes back before somebody sets `mode: Apply` again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import asking, output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quintet.apis.casconfig import CASConfig


@click.command(
    epilog="Exit codes: 0 it was asked for, and with -w all is undone; 1 it failed; 2 it was called wrongly."
)
@click.argument("name", metavar="CASCONFIG")
@asking.where
@click.option("-w", "--wait", "wait", is_flag=True, help="Until all targets are as they were.")
@click.option("--timeout", default=300.0, show_default=True, help="Seconds to wait with -w.")
@click.option("--dry-run", is_flag=True, help="Only list what would be undone; the server checks it.")
def undo(name: str, where: asking.Where, wait: bool, timeout: float, dry_run: bool) -> None:
    """Take what a CASConfig has set out of its targets, and leave the config there.

    It gets spec.mode: Preview: the controller undoes everything, and then only says in status.plan what
    it would set. Nothing comes back before spec.mode is Apply again. Where the config is kept in a
    repository that is applied by itself, change it there.
    """
    import asyncio

    name = name.removeprefix("casconfig/")
    asyncio.run(_undo(name, where, timeout if wait else 0.0, dry_run=dry_run))


async def _undo(name: str, where: asking.Where, patience: float, *, dry_run: bool) -> None:
    from quintet.apis.casconfig import CASCONFIGS, CASConfig, Mode
    from quintet.apis.steering import suspended
    from quintet.cli.steering import MANAGER
    from quintet.cli.waiting import until
    from quintet.local.errors import LocalError

    async with asking.connected(where) as asked:
        key = asked.key(CASCONFIGS, name)
        found = await asked.client.get(CASCONFIGS, key, CASConfig)
        if suspended(found.metadata):
            step = f"run `quintet resume casconfig {name}` first: only the controller can undo it"
            raise LocalError(f"CASConfig {key} is suspended", step)
        client = asked.client.with_manager(MANAGER)
        body = {"spec": {"mode": Mode.PREVIEW}}
        await client.patch(CASCONFIGS, key, body, CASConfig, dry_run=dry_run)
        if dry_run:
            output.result("\n".join(_listed(name, found)))
            return
        output.progress(f"to have it back: kubectl patch casc {name} --type=merge -p '{APPLY}'")
        if patience:
            told = _Telling()

            def done(now: CASConfig) -> bool | None:
                told.trouble(now)
                return undone(now)

            await until(asked.client, CASCONFIGS, key, CASConfig, done, patience)
    output.result(f"casconfig/{name} {'is' if patience else 'is being'} undone: spec.mode is Preview")


APPLY = '{"spec":{"mode":"Apply"}}'


def undone(config: CASConfig) -> bool | None:
    """Whether nothing of it is left on any target; None while that is not so, or not known yet."""
    from quintet.apis.casconfig import Mode

    status = config.status
    seen = status.observed_generation == config.metadata.generation
    # What the config may have changed is written down there before it does, until it is taken back.
    clean = not (status.reach or status.unfinished)
    return True if config.spec.mode is Mode.PREVIEW and seen and clean else None


def _listed(name: str, config: CASConfig) -> Iterator[str]:
    held, more = [each for each in config.status.targets if each.paths], config.status.targets_not_listed
    count = len(held) + more
    yield f"casconfig/{name} would be undone on {count} object{'' if count == 1 else 's'} (dry run)"
    for each in held:
        yield f"  {each.kind} {each.namespace}/{each.name}"
    if more:
        yield f"  and {more} more"


class _Telling:
    """Says what keeps it from being undone, each thing once."""

    def __init__(self) -> None:
        self._said = ""

    def trouble(self, config: CASConfig) -> None:
        from quintet.apis.meta import find_condition

        ready = find_condition(config.status.conditions, "Ready")
        current = ready is not None and ready.observed_generation == config.metadata.generation
        if ready is not None and current and ready.status != "True" and ready.message != self._said:
            self._said = ready.message
            output.progress(f"waiting: {ready.reason}: {ready.message}")
