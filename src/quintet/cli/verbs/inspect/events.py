"""The verb events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import options, output
from quintet.inspect.events import event_document, event_row, event_table
from quintet.inspect.session import connect
from quintet.inspect.tables import align_columns, truncate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quintet.inspect.events import EventSummary
    from quintet.inspect.kinds import ObjectName
    from quintet.inspect.session import Target


@click.command(epilog=options.WATCH_EXIT_CODES)
@options.object_argument("[KIND NAME]", required=False)
@options.target_or_all_namespaces
@click.option("-w", "--watch", is_flag=True, help="Keep watching and print every new Event.")
@options.output_option("json", "yaml")
def events(typed: tuple[str, ...], target: Target, watch: bool, form: str) -> None:
    """Show the Events of Quintet objects, or of one object, and of the objects that they own.

    The oldest Event is the first; (x4) means that it occurred four times. Kubernetes keeps Events for an
    hour.
    """
    named = options.parse_object(typed) if typed else None
    if named and target.all_namespaces:
        raise click.UsageError("-A selects all namespaces: omit it, or omit KIND NAME")
    if watch and form == "yaml":
        raise click.UsageError("-w works with text or -o json")
    options.run(_show(target, named, watch, form))


async def _show(target: Target, named: ObjectName | None, watch: bool, form: str) -> None:
    from quintet.clock import SystemClock
    from quintet.inspect.event_list import EventSelection

    async with connect(target) as session:
        selection = await EventSelection.create(session, named)
        namespaces = not selection.namespace
        found = await selection.list()
        _print(found, form, namespaces=namespaces, watch=watch)
        if not watch:
            return
        async for each in selection.follow(found, output.progress):
            if form:
                output.result_json(event_document(each))
            else:
                cells = event_row(each, SystemClock().now(), namespaces=namespaces)
                output.result(truncate("  ".join(cells), output.width()))


def _print(found: Sequence[EventSummary], form: str, *, namespaces: bool, watch: bool) -> None:
    from quintet.clock import SystemClock

    if form and watch:
        for each in found:
            output.result_json(event_document(each))
    elif form:
        output.result_as(form, {"items": [event_document(each) for each in found]})
    elif found:
        rows = event_table(found, SystemClock().now(), namespaces=namespaces)
        for line in align_columns(rows, width=output.width()):
            output.result(line)
    else:
        output.progress("no Events found; Kubernetes keeps them for an hour")
