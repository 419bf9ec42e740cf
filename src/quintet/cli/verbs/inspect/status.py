"""The verb status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import options, output
from quintet.inspect import kinds
from quintet.inspect.session import connect
from quintet.inspect.status import ObjectStatus, Rating, read_status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from datetime import datetime

    from quintet.apis.resources import CustomResource
    from quintet.inspect.panels.panel import Panel
    from quintet.inspect.session import Session, Target

SIGNS = {
    Rating.GOOD: ("✓", "green"),
    Rating.BAD: ("✗", "red"),
    Rating.OPEN: ("?", "yellow"),
    Rating.NEUTRAL: ("·", ""),
}


@click.command(epilog=options.WATCH_EXIT_CODES)
@options.object_argument("[KIND [NAME]]", required=False)
@options.target_or_all_namespaces
@options.selector_option
@click.option(
    "-w", "--watch", is_flag=True, help="Keep watching: redraw on a terminal, else print every change."
)
@options.output_option("json", "yaml", "wide", "name")
def status(typed: tuple[str, ...], target: Target, labels: str, watch: bool, form: str) -> None:
    """Show the status of Quintet objects: of all, of a KIND, or of one object in detail.

    KIND is a name that kubectl accepts, such as js, jsonservers or JsonServer; KIND/NAME works too.
    """
    if len(typed) == 2 or (len(typed) == 1 and "/" in typed[0]):
        named = options.parse_object(typed)
        if labels or target.all_namespaces:
            raise click.UsageError("-l and -A filter a list: omit them, or omit NAME")
        options.run(_show_one(target, named, watch, "" if form == "wide" else form))
    elif len(typed) <= 1:
        chosen = (options.parse_kind(typed[0]),) if typed else kinds.all_kinds()
        options.run(_show_many(target, chosen, labels, watch, form))
    else:
        raise click.UsageError("name one object: KIND NAME or KIND/NAME")


async def _show_one(target: Target, named: kinds.ObjectName, watch: bool, form: str) -> None:
    from quintet.apis.meta import JsonObject
    from quintet.inspect.panels.reader import read_panels

    kind, name = named
    async with connect(target) as session:
        key = session.key(kind.resource, name)
        body = await session.client.get(kind.resource, key, JsonObject)
        shown = read_status(kind, body)
        if watch and not form and output.is_terminal():
            await _redraw_one(session, named)
            return
        _print(shown, form)
        if not form:
            for line in panel_lines(await read_panels(session.client, kind.resource, body)):
                output.result(line)
        if watch:
            await _watch_one(session, named, shown, form)


async def _redraw_one(session: Session, named: kinds.ObjectName) -> None:
    """Show an object after every change of it or of its children, in place of what was shown before."""
    from quintet.inspect.panels.reader import panels_of_tree
    from quintet.inspect.relations.follow_tree import follow_tree
    from quintet.inspect.status_list import status_lines

    screen = output.Screen()
    async for tree in follow_tree(session, named, output.progress):
        assert tree.root.body is not None, "the root of a tree was read"
        found = read_status(named.kind, tree.root.body)
        conditions = [add_sign(line) for line in status_lines(found, _now())]
        screen.show([*conditions, *panel_lines(panels_of_tree(tree))])
    output.result(f"{_time()}  {named.kind.resource.kind.lower()}/{named.name} was deleted")


async def _watch_one(session: Session, named: kinds.ObjectName, shown: ObjectStatus, form: str) -> None:
    from quintet.inspect.follow import WatchTarget, follow_changes
    from quintet.inspect.status_list import status_lines

    resource = named.kind.resource
    namespace = session.key(resource, named.name).namespace
    watched = WatchTarget(resource, namespace, fields=f"metadata.name={named.name}")
    async for change in follow_changes(session.client, [watched], output.progress):
        if change.deleted:
            output.result(f"{_time()}  {shown.typed} was deleted")
            return
        now = read_status(named.kind, change.body)
        if now == shown:
            continue
        if form:
            _print(now, form)
        else:
            before = status_lines(shown, None)
            for line in status_lines(now, None):
                if line not in before:
                    output.result(f"{_time()}  {line.strip()}")
        shown = now


async def _show_many(
    target: Target, chosen: Sequence[CustomResource], labels: str, watch: bool, form: str
) -> None:
    from quintet.inspect.status_list import list_statuses, status_document

    wide = form == "wide"
    form = "" if wide else form
    async with connect(target) as session:
        found, served, remarks = await list_statuses(session, chosen, labels)
        for remark in remarks:
            output.progress(remark)
        if watch and not form and output.is_terminal():
            await _redraw_many(session, served, found, labels, wide=wide)
            return
        if form == "name":
            for each in found:
                output.result(each.typed)
        elif form:
            output.result_as(form, {"items": [status_document(each) for each in found]})
        elif found:
            for line in _table(session, found, wide=wide):
                output.result(line)
        else:
            output.progress(f"no objects found in {session.scope}")
        if watch:
            await _watch_many(session, served, found, labels, form)


def _table(session: Session, found: Sequence[ObjectStatus], *, wide: bool) -> list[str]:
    from quintet.inspect.status_list import status_table
    from quintet.inspect.tables import align_columns

    rows = status_table(found, _now(), namespaces=session.all_namespaces, wide=wide)
    return align_columns(rows, width=None if wide else output.width())


async def _redraw_many(
    session: Session,
    served: Sequence[CustomResource],
    found: Sequence[ObjectStatus],
    labels: str,
    *,
    wide: bool,
) -> None:
    """Show the table after every change, in place of what was shown before; ends only with an error."""
    screen = output.Screen()
    order = [kind.resource.kind for kind in served]
    shown = {(each.kind, each.namespace, each.name): each for each in found}

    def draw() -> None:
        rows = sorted(shown.values(), key=lambda each: (order.index(each.kind), each.namespace, each.name))
        screen.show(_table(session, rows, wide=wide) if rows else [f"no objects found in {session.scope}"])

    draw()
    async for now, deleted in _follow_many(session, served, found, labels):
        key = (now.kind, now.namespace, now.name)
        if deleted:
            shown.pop(key, None)
        else:
            shown[key] = now
        draw()


async def _watch_many(
    session: Session, served: Sequence[CustomResource], found: Sequence[ObjectStatus], labels: str, form: str
) -> None:
    from quintet.inspect.status_list import status_table

    async for now, deleted in _follow_many(session, served, found, labels):
        if deleted:
            output.result(f"{_time()}  {now.typed} was deleted")
        elif form:
            _print(now, form)
        else:
            row = status_table([now], _now(), namespaces=session.all_namespaces)[1]
            output.result("  ".join((_time(), *filter(None, row))))


async def _follow_many(
    session: Session, served: Sequence[CustomResource], found: Sequence[ObjectStatus], labels: str
) -> AsyncIterator[tuple[ObjectStatus, bool]]:
    """Yield each status that differs from the one before, and whether its object was deleted."""
    from quintet.inspect.follow import WatchTarget, follow_changes

    by_resource = {kind.resource: kind for kind in served}
    known = {(each.kind, each.namespace, each.name): each for each in found}
    watched = [
        WatchTarget(each, session.list_namespace if each.namespaced else "", labels) for each in by_resource
    ]
    async for change in follow_changes(session.client, watched, output.progress):
        now = read_status(by_resource[change.target.resource], change.body)
        key = (now.kind, now.namespace, now.name)
        if change.deleted:
            known.pop(key, None)
            yield now, True
        elif known.get(key) != now:
            known[key] = now
            yield now, False


def panel_lines(panels: Sequence[Panel]) -> Iterator[str]:
    """Yield the tables about an object as text."""
    from quintet.inspect.panels.panel import panel_rows
    from quintet.inspect.tables import align_columns, single_line

    for panel in panels:
        yield panel.title.lower()
        rows = [tuple(map(single_line, row)) for row in panel_rows(panel)]
        width = output.width()
        yield from (f"  {line}" for line in align_columns(rows, width=width and width - 2))
        if panel.remark:
            yield f"  ({panel.remark})"


def add_sign(line: str) -> str:
    """Replace the rating at the start of a condition's line with a sign, where the terminal can print it."""
    word = line.strip().partition(" ")[0]
    if not line.startswith("  ") or word not in list(Rating) or not output.is_terminal_with("✓✗·"):
        return line
    sign, colour = SIGNS[Rating(word)]
    rest = line.strip()[len(word) :].lstrip()
    return f"  {output.style(sign, colour) if colour else sign} {rest}"


def _print(found: ObjectStatus, form: str) -> None:
    from quintet.inspect.status_list import status_document, status_lines

    if form == "name":
        output.result(found.typed)
    elif form == "json":
        output.result_json(status_document(found))
    elif form == "yaml":
        output.result("---")
        output.result_yaml(status_document(found))
    else:
        for line in status_lines(found, _now()):
            output.result(add_sign(line))


def _now() -> datetime:
    from quintet.clock import SystemClock

    return SystemClock().now()


def _time() -> str:
    return f"{_now().astimezone():%H:%M:%S}"
