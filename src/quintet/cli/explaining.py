"""The command explain: why an object is as it is; or, for `backend`, what a type of backend can be told.

Called by `main`. Of an object it reads conditions, children and Events, which `explanation` puts together;
the types of backends are `catalog`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import asking, kinds, output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quintet.apis.meta import JsonObject
    from quintet.apis.resources import CustomResource
    from quintet.cli.asking import Asked, Where
    from quintet.cli.explanation import Child, Explanation
    from quintet.cli.family import Family
    from quintet.cli.happenings import Happening

BACKEND = "backend"


@click.command(epilog="Exit codes: 0 it was shown, 1 it failed, 2 it was called wrongly.")
@click.argument("typed", metavar="KIND NAME | backend [TYPE [KEY]]", nargs=-1, required=True)
@asking.where
@asking.forms("text", "json", "yaml")
def explain(typed: tuple[str, ...], where: Where, form: str) -> None:
    """Say why an object is as it is: conditions, children, Events, and the next step.

    `quintet explain backend` shows the types of backend, the keys of a type, or one key; with -o json it
    is what the discovery endpoint answers.
    """
    form = "" if form == "text" else form
    if typed[0] == BACKEND:
        from quintet.cli.catalog import show

        show(typed[1:], form)
        return
    named = kinds.object_of(typed)
    found, unseen = asking.run(_asked(where, named))
    if form:
        from quintet.cli.explanation import document

        output.result_as(form, document(found) | {"notSeen": unseen})
        return
    from quintet.cli.explanation import text
    from quintet.clock import SystemClock

    for line in text(found, SystemClock().now()):
        output.result(line)
    for remark in unseen:
        output.progress(remark)


async def _asked(where: Where, named: kinds.Named) -> tuple[Explanation, list[str]]:
    from quintet.apis.meta import JsonObject
    from quintet.cli.explanation import explanation
    from quintet.cli.standing import standing
    from quintet.cli.tree import remarks, whole

    kind = named.kind
    async with asking.connected(where) as asked:
        body = await asked.client.get(kind.resource, asked.key(kind.resource, named.name), JsonObject)
        family = await whole(asked, named, body)
        events, trouble = await _events(asked, family)
    waits = body["metadata"].get("finalizers") or ()
    told = explanation(
        standing(kind, body), children(family), events, controller=controller_of(kind), waits=waits
    )
    return told, [*remarks(family), *trouble]


def children(family: Family) -> Iterator[Child]:
    """All that belongs to an object, with how it stands."""
    from quintet.cli.explanation import Child
    from quintet.cli.tree import state_of

    for member in family.root.all():
        if member is not family.root:
            yield Child(member.resource.kind, member.meta.name, state_of(member))


def controller_of(kind: CustomResource) -> str:
    """Which controller looks after a kind."""
    from quintet.components import COMPONENTS

    return next((name for name, each in COMPONENTS.items() if kind in each.kinds), "operator")


async def _events(asked: Asked, family: Family) -> tuple[list[Happening], list[str]]:
    """The Events about a family, and what kept us from reading them."""
    import msgspec

    from quintet.cli.happenings import happening
    from quintet.kube.errors import Forbidden
    from quintet.runtime.events import EVENTS

    uids = {member.meta.uid for member in family.root.all()} - {""}
    found: list[Happening] = []
    try:
        async for page in asked.client.pages(EVENTS, namespace=family.root.meta.namespace):
            bodies: list[JsonObject] = [msgspec.json.decode(item) for item in page.items]
            found += [each for each in map(happening, bodies) if each.uid in uids]
    except Forbidden:
        return [], ["not looked at, because you may not list them: events.events.k8s.io"]
    return found, []
