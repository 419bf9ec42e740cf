"""The command status: how objects stand, as a list or one in full, once or as they change.

Called by `main`; what to say is decided in `standing`, which words and columns here.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from quintet.cli import asking, kinds, output
from quintet.cli.standing import Mark, Standing, mark, remarks, standing
from quintet.cli.tables import age, aligned, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from quintet.apis.meta import Condition, JsonObject
    from quintet.apis.resources import CustomResource
    from quintet.cli.asking import Asked, Where

SIGNS = {
    Mark.GOOD: ("✓", "green"),
    Mark.BAD: ("✗", "red"),
    Mark.OPEN: ("?", "yellow"),
    Mark.NEUTRAL: ("·", ""),
}


@click.command(
    epilog="Exit codes: 0 it was shown, 1 it failed, 2 it was called wrongly, 130 it was interrupted."
)
@click.argument("typed", metavar="[KIND [NAME]]", nargs=-1)
@asking.where_or_everywhere
@asking.labels
@click.option("-w", "--watch", is_flag=True, help="Go on, and show every change as it comes.")
@asking.forms("json", "yaml", "wide")
def status(typed: tuple[str, ...], where: Where, labels: str, watch: bool, form: str) -> None:
    """Show how objects stand: all of them, those of a KIND, or one in full.

    KIND is what kubectl calls it, such as js, jsonservers or JsonServer; KIND/NAME works too.
    """
    if len(typed) == 2 or (len(typed) == 1 and "/" in typed[0]):
        named = kinds.object_of(typed)
        if labels or where.everywhere:
            raise click.UsageError("-l and -A choose from a list: leave them out, or leave NAME out")
        asking.run(_one(where, named, watch, "" if form == "wide" else form))
    elif len(typed) <= 1:
        chosen = (kinds.kind_of(typed[0]),) if typed else kinds.known()
        asking.run(_many(where, chosen, labels, watch, form))
    else:
        raise click.UsageError("name one object: KIND NAME or KIND/NAME")


async def _one(where: Where, named: kinds.Named, watch: bool, form: str) -> None:
    from quintet.apis.meta import JsonObject

    kind, name = named
    async with asking.connected(where) as asked:
        key = asked.key(kind.resource, name)
        seen = standing(kind, await asked.client.get(kind.resource, key, JsonObject))
        _show(seen, form)
        if watch:
            await _follow_one(asked, named, seen, form)


async def _follow_one(asked: Asked, named: kinds.Named, seen: Standing, form: str) -> None:
    from quintet.cli.following import What, changes

    resource = named.kind.resource
    namespace = asked.key(resource, named.name).namespace
    what = What(resource, namespace, fields=f"metadata.name={named.name}")
    async for change in changes(asked.client, [what]):
        if change.gone:
            output.result(f"{_clock()}  {seen.typed} is gone")
            return
        now = standing(named.kind, change.body)
        if now == seen:
            continue
        if form:
            _show(now, form)
        else:
            before = lines(seen, None)
            for line in lines(now, None):
                if line not in before:
                    output.result(f"{_clock()}  {line.strip()}")
        seen = now


async def _many(where: Where, chosen: Sequence[CustomResource], labels: str, watch: bool, form: str) -> None:
    async with asking.connected(where) as asked:
        found, served = await listed(asked, chosen, labels)
        wide = form == "wide"
        form = "" if wide else form
        if form:
            output.result_as(form, {"items": [document(each) for each in found]})
        elif found:
            rows = table(found, _now(), namespaces=asked.everywhere, wide=wide)
            for line in aligned(rows, width=None if wide else output.width()):
                output.result(line)
        else:
            output.progress(f"there is nothing in {_place(asked)}")
        if watch:
            await _follow_many(asked, served, found, labels, form)


async def _follow_many(
    asked: Asked, served: Sequence[CustomResource], seen: Sequence[Standing], labels: str, form: str
) -> None:
    from quintet.cli.following import What, changes

    by_kind = {kind.resource: kind for kind in served}
    shown = {(each.kind, each.namespace, each.name): each for each in seen}
    followed = [What(each, asked.scope if each.namespaced else "", labels) for each in by_kind]
    async for change in changes(asked.client, followed):
        now = standing(by_kind[change.what.resource], change.body)
        key = (now.kind, now.namespace, now.name)
        if change.gone:
            shown.pop(key, None)
            output.result(f"{_clock()}  {now.typed} is gone")
        elif shown.get(key) != now:
            shown[key] = now
            if form:
                _show(now, form)
            else:
                row = table([now], _now(), namespaces=asked.everywhere)[1]
                output.result("  ".join((_clock(), *filter(None, row))))


async def listed(
    asked: Asked, chosen: Sequence[CustomResource], labels: str = ""
) -> tuple[list[Standing], list[CustomResource]]:
    """How all objects of some kinds stand, and which of the kinds could be read."""
    import asyncio

    from quintet.kube.errors import Forbidden, NotFound
    from quintet.local.errors import LocalError

    answers = await asyncio.gather(*(_list(asked, kind, labels) for kind in chosen), return_exceptions=True)
    found, served, unseen = [], [], []
    for kind, answer in zip(chosen, answers, strict=True):
        match answer:
            case NotFound():
                unseen.append(f"{kind.resource.kind}: this cluster has no such kind")
            case Forbidden() if len(chosen) > 1:
                unseen.append(f"{kind.resource.kind}: you may not list them in {_place(asked)}")
            case BaseException():
                raise answer
            case list():
                found += [standing(kind, each) for each in answer]
                served.append(kind)
    if not served:
        raise LocalError(
            f"none of what was asked for can be seen here ({unseen[0]})",
            "`quintet doctor` tells whether Quintet is installed and what you may do",
        )
    for remark in unseen:
        output.progress(remark)
    return found, served


async def _list(asked: Asked, kind: CustomResource, labels: str) -> list[JsonObject]:
    import msgspec

    resource, found = kind.resource, []
    scope = asked.scope if resource.namespaced else ""
    async for page in asked.client.pages(resource, namespace=scope, labels=labels):
        found += [msgspec.json.decode(item) for item in page.items]
    return sorted(found, key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"]))


def table(
    found: Sequence[Standing], now: datetime, *, namespaces: bool = False, wide: bool = False
) -> list[tuple[str, ...]]:
    """A head and one row for each object, with the longest cell last."""
    rows = [("NAMESPACE", "NAME", "READY", "REASON", "AGE", "FACTS", "MESSAGE")]
    for each in found:
        said = "; ".join((*remarks(each), one_line(each.message)))
        known = ", ".join(f"{name}={one_line(value)}" for name, value in each.facts)
        rows.append(
            (each.namespace, each.typed, each.ready, each.reason, age(each.created, now), known, said)
        )
    left_out = {0: not namespaces, 5: not wide}
    return [tuple(cell for place, cell in enumerate(row) if not left_out.get(place)) for row in rows]


def document(found: Standing) -> dict[str, Any]:
    """The same for a program."""
    conditions = [
        {
            "type": each.type,
            "status": each.status,
            "reason": each.reason,
            "message": each.message,
            "lastTransitionTime": each.last_transition_time,
            "mark": str(mark(each)),
        }
        for each in found.conditions
    ]
    return asdict(found) | {"conditions": conditions, "facts": dict(found.facts), "current": found.current}


def lines(found: Standing, now: datetime | None) -> list[str]:
    """One object in full; without `now` there is nothing in it that changes by itself."""
    where = f"{found.namespace}/{found.name}" if found.namespace else found.name
    shown = [f"{found.kind} {where}: {found.verdict} ({found.reason})"]
    shown += [f"  {remark}" for remark in remarks(found)]
    about = [*found.facts, *([("Age", age(found.created, now))] if now else [])]
    shown += [f"  {line}" for line in aligned([(name, one_line(value)) for name, value in about])]
    rows = [_condition_row(each, now) for each in found.conditions]
    return [*shown, *(["conditions"] if rows else []), *(f"  {line}" for line in aligned(rows))]


def _condition_row(condition: Condition, now: datetime | None) -> tuple[str, ...]:
    since = f" (for {age(condition.last_transition_time, now)})" if now else ""
    state = f"{condition.status} {condition.reason}"
    return (str(mark(condition)), condition.type, state, f"{one_line(condition.message)}{since}")


def decorated(line: str) -> str:
    """A line about a condition, with a sign instead of the word where a terminal has it."""
    word = line.strip().partition(" ")[0]
    if not line.startswith("  ") or word not in list(Mark) or not output.shows("✓✗·"):
        return line
    sign, colour = SIGNS[Mark(word)]
    rest = line.strip()[len(word) :].lstrip()
    return f"  {output.styled(sign, colour) if colour else sign} {rest}"


def _show(found: Standing, form: str) -> None:
    if form == "json":
        output.result_json(document(found))
    elif form == "yaml":
        output.result("---")
        output.result_yaml(document(found))
    else:
        for line in lines(found, _now()):
            output.result(decorated(line))


def _place(asked: Asked) -> str:
    return "any namespace" if asked.everywhere else f"namespace {asked.namespace}"


def _now() -> datetime:
    from quintet.clock import SystemClock

    return SystemClock().now()


def _clock() -> str:
    return f"{_now().astimezone():%H:%M:%S}"
