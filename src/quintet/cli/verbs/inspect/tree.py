"""The verb tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import options, output
from quintet.inspect.relations.tree import (
    ASCII_LINES,
    UNICODE_LINES,
    read_tree,
    render_tree,
    tree_document,
    tree_remarks,
)
from quintet.inspect.session import connect
from quintet.inspect.status import Rating

if TYPE_CHECKING:
    from quintet.inspect.kinds import ObjectName
    from quintet.inspect.relations.owned_objects import ObjectTree
    from quintet.inspect.session import Target
    from quintet.inspect.states import ChildState

COLOURS = {Rating.GOOD: "green", Rating.BAD: "red", Rating.OPEN: "yellow"}


@click.command(epilog=options.WATCH_EXIT_CODES)
@options.object_argument()
@options.target_options
@click.option("-w", "--watch", is_flag=True, help="Keep watching and show the tree after every change.")
@options.output_option("json", "yaml")
def tree(typed: tuple[str, ...], target: Target, watch: bool, form: str) -> None:
    """Show an object and the objects that it owns, down to pods and their volume claims, with their state.

    Types that you have no permission to list are omitted and reported.
    """
    named = options.parse_object(typed)
    if watch:
        options.run(_watch(target, named, form))
    else:
        _print(options.run(_read(target, named)), form)


async def _read(target: Target, named: ObjectName) -> ObjectTree:
    from quintet.apis.meta import JsonObject

    async with connect(target) as session:
        key = session.key(named.kind.resource, named.name)
        body = await session.client.get(named.kind.resource, key, JsonObject)
        return await read_tree(session.client, named, body)


async def _watch(target: Target, named: ObjectName, form: str) -> None:
    from quintet.inspect.relations.follow_tree import follow_tree

    screen = output.Screen()
    async with connect(target) as session:
        async for found in follow_tree(session, named, output.progress):
            if form:
                _print(found, form)
            else:
                screen.show([*_lines(found), *tree_remarks(found)])
    output.progress(f"{named.kind.resource.kind} {named.name} was deleted")


def _print(found: ObjectTree, form: str) -> None:
    if form:
        output.result_as(form, tree_document(found))
        return
    for line in _lines(found):
        output.result(line)
    for remark in tree_remarks(found):
        output.progress(remark)


def _lines(found: ObjectTree) -> list[str]:
    style = UNICODE_LINES if output.can_print("".join(UNICODE_LINES)) else ASCII_LINES
    return list(render_tree(found.root, style, _colour))


def _colour(state: ChildState) -> str:
    return output.style(state.word, COLOURS[state.rating]) if state.rating in COLOURS else state.word
