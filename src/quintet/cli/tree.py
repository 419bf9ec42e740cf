"""The command tree: an object and all that belongs to it, each with its state.

Called by `main`. What belongs to it is found by `family`; what it only works with (the targets of a
CASConfig, the Subscriptions of an EventingBackend) is added here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from quintet.cli import asking, kinds, output
from quintet.cli.kinds import same_kind
from quintet.cli.standing import Mark, standing
from quintet.cli.states import State, state

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quintet.apis.meta import JsonObject
    from quintet.cli.asking import Asked, Where
    from quintet.cli.family import Family, Member

LINES = ("├── ", "└── ", "│   ", "    ")
PLAIN = ("|-- ", "`-- ", "|   ", "    ")
COLOURS = {Mark.GOOD: "green", Mark.BAD: "red", Mark.OPEN: "yellow"}


@click.command(epilog="Exit codes: 0 it was shown, 1 it failed, 2 it was called wrongly.")
@click.argument("typed", metavar="KIND NAME", nargs=-1, required=True)
@asking.where
@asking.forms("json", "yaml")
def tree(typed: tuple[str, ...], where: Where, form: str) -> None:
    """Show an object and all that belongs to it, down to pods and their claims, each with its state.

    What you may not list is left out, and said.
    """
    named = kinds.object_of(typed)
    found = asking.run(_asked(where, named))
    if form:
        output.result_as(form, document(found))
        return
    style = LINES if output.prints("".join(LINES)) else PLAIN
    for line in drawn(found.root, style):
        output.result(line)
    for remark in remarks(found):
        output.progress(remark)


async def _asked(where: Where, named: kinds.Named) -> Family:
    from quintet.apis.meta import JsonObject

    async with asking.connected(where) as asked:
        key = asked.key(named.kind.resource, named.name)
        body = await asked.client.get(named.kind.resource, key, JsonObject)
        return await whole(asked, named, body)


async def whole(asked: Asked, named: kinds.Named, body: JsonObject) -> Family:
    """All that an object owns, and all that it works with."""
    from quintet.cli.family import family

    found = await family(asked.client, named.kind.resource, body)
    more = targets(body) if named.kind.resource.kind == "CASConfig" else ()
    if named.kind.resource.kind == "EventingBackend":
        more = await _subscriptions(asked, body)
    return replace(found, root=replace(found.root, children=(*found.root.children, *more)))


def targets(body: JsonObject) -> tuple[Member, ...]:
    """What a CASConfig changes, from its status."""
    import msgspec

    from quintet.apis.casconfig.types import Target
    from quintet.apis.meta import ObjectMeta, Resource
    from quintet.cli.family import Member

    found = []
    for each in msgspec.convert((body.get("status") or {}).get("targets") or (), tuple[Target, ...]):
        *group, version, kind = ["", *each.kind.split("/")]
        meta = ObjectMeta(name=each.name, namespace=each.namespace)
        state = {"state": str(each.state), "reason": each.reason, "message": each.message}
        found.append(Member(Resource("".join(group), version, kind, ""), meta, {"target": state}, "target"))
    return tuple(found)


async def _subscriptions(asked: Asked, backend: JsonObject) -> tuple[Member, ...]:
    import msgspec

    from quintet.apis.meta import ObjectMeta
    from quintet.apis.subscription import SUBSCRIPTIONS
    from quintet.cli.family import Member
    from quintet.kube.errors import ApiError

    meta, found = backend["metadata"], []
    try:
        async for page in asked.client.pages(SUBSCRIPTIONS, namespace=meta["namespace"]):
            found += [msgspec.json.decode(item) for item in page.items]
    except ApiError as error:
        output.progress(f"its Subscriptions cannot be read: {error.message or error}")
    return tuple(
        Member(SUBSCRIPTIONS, msgspec.convert(each["metadata"], ObjectMeta), each, "uses it")
        for each in found
        if _backend_of(each) == meta["name"]
    )


def _backend_of(subscription: JsonObject) -> str:
    spec, status = subscription.get("spec") or {}, subscription.get("status") or {}
    return str((status.get("backend") or {}).get("name") or spec.get("backend") or "")


def state_of(member: Member) -> State:
    """How a member stands, whether it is one of our kinds or not."""
    body = member.body
    if body is not None and (target := body.get("target")) is not None:
        bad = target.get("state") in ("Failed", "Contested", "RolledBack")
        word = ", ".join(filter(None, (target.get("state"), target.get("reason"))))
        return State(word, Mark.BAD if bad else Mark.NEUTRAL, str(target.get("message") or ""))
    for kind in kinds.known():
        if body is not None and same_kind(kind.resource, member.resource):
            found = standing(kind, body)
            mark = {"True": Mark.GOOD, "False": Mark.BAD}.get(found.ready, Mark.OPEN)
            return State(f"{found.verdict} ({found.reason})", mark, found.message)
    return state(member.resource, body)


def drawn(member: Member, style: Sequence[str], front: str = "", below: str = "") -> Iterator[str]:
    """A line for each member, with lines that lead to it."""
    found = state_of(member)
    relation = f" ({member.relation})" if member.relation else ""
    name = f"{member.resource.kind} {member.meta.name}{relation}"
    word = output.styled(found.word, COLOURS[found.mark]) if found.mark in COLOURS else found.word
    yield f"{front}{name}  {word}".rstrip()
    branch, last, through, space = style
    for number, child in enumerate(member.children, 1):
        ends = number == len(member.children)
        yield from drawn(
            child, style, below + (last if ends else branch), below + (space if ends else through)
        )


def remarks(found: Family) -> list[str]:
    """What could not be looked at."""
    said = [f"not looked at: {trouble}" for trouble in found.troubles]
    if found.unlisted:
        said.append(f"not looked at, because you may not list them: {', '.join(found.unlisted)}")
    return said


def document(found: Family) -> dict[str, Any]:
    """The same for a program."""
    return {
        "root": _document(found.root),
        "notListed": list(found.unlisted),
        "troubles": list(found.troubles),
    }


def _document(member: Member) -> dict[str, Any]:
    found = state_of(member)
    return {
        "apiVersion": member.resource.api_version,
        "kind": member.resource.kind,
        "namespace": member.meta.namespace,
        "name": member.meta.name,
        "uid": member.meta.uid,
        "relation": member.relation or "owned",
        "state": found.word,
        "mark": str(found.mark),
        "detail": found.detail,
        "children": [_document(each) for each in member.children],
    }
