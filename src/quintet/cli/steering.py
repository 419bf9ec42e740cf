"""The commands reconcile, suspend and resume: one annotation each, which every controller knows.

Called by `main`. They act with the rights of whoever calls them, who must be allowed to patch the
object; `controllers.suspension` is what listens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import asking, completion, output

if TYPE_CHECKING:
    from quintet.apis.meta import ObjectMeta

EXIT_CODES = "Exit codes: 0 it worked, 1 it failed, 2 it was called wrongly."
MANAGER = "quintet-cli"
_typed = click.argument(
    "typed", nargs=-1, required=True, metavar="KIND NAME", shell_complete=completion.kinds
)
_dry_run = click.option("--dry-run", is_flag=True, help="Let the server check it, and change nothing.")


@click.command(epilog=EXIT_CODES)
@_typed
@asking.where
@_dry_run
def reconcile(typed: tuple[str, ...], where: asking.Where, dry_run: bool) -> None:
    """Ask the controller to look at an object now.

    It does so by itself at every change; this is for what nobody tells it, such as a server that is
    back, and for those who do not want to wait. Written as the annotation quintet.dev/reconcile-at.
    """
    from quintet.apis.steering import RECONCILE_AT, SUSPENDED, suspended
    from quintet.clock import SystemClock, micro_timestamp

    # To the microsecond: a second call within the second must be another value.
    now = micro_timestamp(SystemClock().now())
    after = _annotated(typed, where, {RECONCILE_AT: now}, "asked for", dry_run=dry_run)
    if suspended(after):
        output.progress(f"it is suspended ({SUSPENDED}): nothing happens before `quintet resume`")


@click.command(epilog=EXIT_CODES)
@_typed
@asking.where
@_dry_run
def suspend(typed: tuple[str, ...], where: asking.Where, dry_run: bool) -> None:
    """Let the controller leave an object and its children alone, until `quintet resume`.

    What runs goes on running; nothing is mended, changed or reported. Deleting still works. Written as
    the annotation quintet.dev/suspended.
    """
    from quintet.apis.steering import SUSPENDED

    _annotated(typed, where, {SUSPENDED: "true"}, "suspended", dry_run=dry_run)


@click.command(epilog=EXIT_CODES)
@_typed
@asking.where
@_dry_run
def resume(typed: tuple[str, ...], where: asking.Where, dry_run: bool) -> None:
    """Let the controller look after a suspended object again.

    What was changed in the meantime is brought to what the object says.
    """
    from quintet.apis.steering import SUSPENDED

    _annotated(typed, where, {SUSPENDED: None}, "resumed", dry_run=dry_run)


def _annotated(
    typed: tuple[str, ...],
    where: asking.Where,
    annotations: dict[str, str | None],
    done: str,
    *,
    dry_run: bool,
) -> ObjectMeta:
    """Write annotations on the object that is meant, say so, and return what it says now."""
    import asyncio

    from quintet.apis.meta import Object
    from quintet.cli.kinds import object_of

    kind, name = object_of(typed)

    async def patched() -> ObjectMeta:
        async with asking.connected(where) as asked:
            key = asked.key(kind.resource, name)
            client = asked.client.with_manager(MANAGER)
            body = {"metadata": {"annotations": annotations}}
            return (await client.patch(kind.resource, key, body, Object, dry_run=dry_run)).metadata

    after = asyncio.run(patched())
    output.result(f"{kind.resource.kind.lower()}/{name} {done}{' (dry run)' if dry_run else ''}")
    return after
