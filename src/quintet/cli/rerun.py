"""The command rerun: another run of a Checkup.

Called by `main`. It writes the annotation that docs/checkup.md describes; with `-w` it waits until
that run has its verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import asking, output

if TYPE_CHECKING:
    from quintet.apis.checkup import Checkup
    from quintet.apis.meta import ObjectMeta


@click.command(
    epilog="Exit codes: 0 it was asked for, and with -w it passed; 1 it did not pass, or it failed; "
    "2 it was called wrongly."
)
@click.argument("name", metavar="CHECKUP")
@asking.where
@click.option("-w", "--wait", "wait", is_flag=True, help="Until the run has ended, and print its verdict.")
@click.option("--timeout", default=600.0, show_default=True, help="Seconds to wait with -w.")
@click.option("--dry-run", is_flag=True, help="Let the server check it, and change nothing.")
def rerun(name: str, where: asking.Where, wait: bool, timeout: float, dry_run: bool) -> None:
    """Run a Checkup again, once the present run has ended.

    The run gets a Job, a ConfigMap and rights of its own; what came of the one before goes into
    status.history.
    """
    import asyncio

    name = name.removeprefix("checkup/")
    verdict = asyncio.run(_again(name, where, timeout if wait and not dry_run else 0.0, dry_run=dry_run))
    if verdict is not None:
        passed, line = verdict
        output.result(line)
        raise click.exceptions.Exit(0 if passed else 1)


async def _again(
    name: str, where: asking.Where, patience: float, *, dry_run: bool
) -> tuple[bool, str] | None:
    from quintet.apis.checkup import CHECKUPS, Checkup
    from quintet.apis.checkup.types import RERUN
    from quintet.apis.meta import Object
    from quintet.cli.steering import MANAGER
    from quintet.cli.waiting import until
    from quintet.clock import SystemClock, micro_timestamp
    from quintet.local.errors import LocalError

    value = micro_timestamp(SystemClock().now())
    async with asking.connected(where) as asked:
        key = asked.key(CHECKUPS, name)
        found = await asked.client.get(CHECKUPS, key, Checkup)
        if (refusal := hindrance(found.metadata)) is not None:
            raise LocalError(f"Checkup {key} {refusal[0]}", refusal[1])
        client = asked.client.with_manager(MANAGER)
        body = {"metadata": {"annotations": {RERUN: value}}}
        await client.patch(CHECKUPS, key, body, Object, dry_run=dry_run)
        output.progress(f"checkup/{name} runs again{' (dry run)' if dry_run else _when(found)}")
        if not patience:
            return None
        return await until(asked.client, CHECKUPS, key, Checkup, lambda now: ending(now, value), patience)


def hindrance(metadata: ObjectMeta) -> tuple[str, str] | None:
    """What would keep another run from starting, and what to do about it."""
    from quintet.apis.checkup.types import CANCEL
    from quintet.apis.steering import suspended

    if metadata.deleting:
        return "is being deleted", "wait until it is gone, and make it again"
    if suspended(metadata):
        return "is suspended", f"run `quintet resume checkup {metadata.name}` first"
    if metadata.annotations.get(CANCEL, "").lower() == "true":
        return (
            "was cancelled, and does not run while it says so",
            f"run `kubectl annotate ckup {metadata.name} {CANCEL}-` first",
        )
    return None


def ending(checkup: Checkup, value: str) -> tuple[bool, str] | None:
    """Whether the run that was asked for passed, and what came of it; None while it has not ended."""
    from quintet.apis.checkup import Verdict

    status = checkup.status
    never_ran = status.verdict is Verdict.INVALID and status.start_time is None
    if status.verdict is None or (status.observed_rerun != value and not never_ran):
        return None
    run = f"run {status.run}" if status.run else "no run"
    text = f"checkup/{checkup.metadata.name} {status.verdict}: {run}: {status.reason}: {status.message}"
    return status.verdict is Verdict.PASSED, text


def _when(found: Checkup) -> str:
    return "" if found.status.verdict is not None else ", once the present run has ended"
