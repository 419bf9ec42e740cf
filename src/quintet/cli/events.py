"""The command events: what happened to objects of ours and to what belongs to them, oldest first.

Called by `main`. How an Event reads is in `happenings`; whether it is about an object of ours, or about
something that belongs to one, is found out by `ancestry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import asking, kinds, output
from quintet.cli.happenings import document, happening, in_time, row, table
from quintet.cli.tables import aligned, cut

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from quintet.cli.ancestry import Ancestry, Being
    from quintet.cli.asking import Asked, Where
    from quintet.cli.happenings import Happening

    Wanted = Callable[[Sequence[Being]], bool]


@click.command(
    epilog="Exit codes: 0 it was shown, 1 it failed, 2 it was called wrongly, 130 it was interrupted."
)
@click.argument("typed", metavar="[KIND NAME]", nargs=-1)
@asking.where_or_everywhere
@click.option("-w", "--watch", is_flag=True, help="Go on, and show every Event as it comes.")
@asking.forms("json", "yaml")
def events(typed: tuple[str, ...], where: Where, watch: bool, form: str) -> None:
    """Show what happened to objects of ours, or to one, and to all that belongs to them.

    Oldest first; (x4) says that the same happened four times. Kubernetes keeps Events for an hour.
    """
    named = kinds.object_of(typed) if typed else None
    if named and where.everywhere:
        raise click.UsageError("-A looks everywhere: leave it out, or leave KIND NAME out")
    if watch and form == "yaml":
        raise click.UsageError("-w goes with text or -o json")
    asking.run(_asked(where, named, watch, form))


async def _asked(where: Where, named: kinds.Named | None, watch: bool, form: str) -> None:
    from quintet.cli.ancestry import Ancestry

    async with asking.connected(where) as asked:
        wanted, scope = await _wanted(asked, named)
        ancestry = await Ancestry.of(asked.client)
        found = await about(asked, ancestry, wanted, scope)
        _show(found, form, namespaces=not scope, watch=watch)
        if watch:
            await _follow(asked, ancestry, wanted, scope, found, form)


async def _wanted(asked: Asked, named: kinds.Named | None) -> tuple[Wanted, str]:
    """Which lines of owners are meant, and in which namespace to look: none stands for all."""
    if named is None:
        ours = {(kind.resource.group, kind.resource.kind) for kind in kinds.known()}
        return lambda line: any((each.group, each.kind) in ours for each in line), asked.scope
    from quintet.apis.meta import Object

    resource = named.kind.resource
    key = asked.key(resource, named.name)
    uid = (await asked.client.get(resource, key, Object)).metadata.uid
    return lambda line: any(each.uid == uid for each in line), key.namespace


async def about(asked: Asked, ancestry: Ancestry, wanted: Wanted, scope: str) -> list[Happening]:
    """The Events of a namespace about objects of certain lines, oldest first."""
    import asyncio

    import msgspec

    from quintet.runtime.events import EVENTS

    found = []
    async for page in asked.client.pages(EVENTS, namespace=scope):
        found += [happening(msgspec.json.decode(item)) for item in page.items]
    chosen = await asyncio.gather(*(_is_meant(ancestry, wanted, each) for each in found))
    return in_time(each for each, meant in zip(found, chosen, strict=True) if meant)


async def _is_meant(ancestry: Ancestry, wanted: Wanted, each: Happening) -> bool:
    from quintet.cli.ancestry import being

    return wanted(
        await ancestry.line(being(each.api_version, each.kind, each.namespace, each.name, each.uid))
    )


async def _follow(
    asked: Asked,
    ancestry: Ancestry,
    wanted: Wanted,
    scope: str,
    shown: Sequence[Happening],
    form: str,
) -> None:
    from quintet.cli.following import What, changes
    from quintet.clock import SystemClock
    from quintet.runtime.events import EVENTS

    seen = {each.id: each.version for each in shown}
    async for change in changes(asked.client, [What(EVENTS, scope)]):
        each = happening(change.body)
        if change.gone or seen.get(each.id) == each.version or not await _is_meant(ancestry, wanted, each):
            continue
        seen[each.id] = each.version
        if form:
            output.result_json(document(each))
        else:
            cells = row(each, SystemClock().now(), namespaces=not scope)
            output.result(cut("  ".join(cells), output.width()))


def _show(found: Sequence[Happening], form: str, *, namespaces: bool, watch: bool) -> None:
    from quintet.clock import SystemClock

    if form and watch:
        for each in found:
            output.result_json(document(each))
    elif form:
        output.result_as(form, {"items": [document(each) for each in found]})
    elif found:
        for line in aligned(table(found, SystemClock().now(), namespaces=namespaces), width=output.width()):
            output.result(line)
    else:
        output.progress("there are no Events: Kubernetes keeps them for an hour")
