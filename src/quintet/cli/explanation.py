"""Why an object is as it is, and what to do: its conditions, children and Events put together. Pure.

Called by `explaining`, which reads all of it from the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quintet.cli.happenings import document as event_document
from quintet.cli.happenings import in_time, row
from quintet.cli.pages import page
from quintet.cli.standing import Mark, mark, remarks
from quintet.cli.tables import age, aligned, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from quintet.apis.meta import Condition
    from quintet.cli.happenings import Happening
    from quintet.cli.standing import Standing
    from quintet.cli.states import State

LAST = 10
"""So many Events are shown."""
_NEXT = "; next: "


@dataclass(frozen=True, slots=True)
class Child:
    """Something that belongs to the object, and how it stands."""

    kind: str
    name: str
    state: State


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is worth knowing about an object that is not as it should be."""

    about: Standing
    chain: tuple[Condition, ...]
    """Conditions that are not as they should be; those first on which others depend."""
    children: tuple[Child, ...]
    events: tuple[Happening, ...]
    steps: tuple[str, ...]


def explanation(
    about: Standing,
    children: Iterable[Child],
    events: Iterable[Happening],
    *,
    controller: str,
    waits: Sequence[str],
) -> Explanation:
    """Put together what was seen; `waits` are the finalizers of the object."""
    chain = tuple(each for each in about.conditions if mark(each) in (Mark.BAD, Mark.OPEN))
    troubled = tuple(each for each in children if each.state.mark in (Mark.BAD, Mark.OPEN))
    last = tuple(in_time(events)[-LAST:])
    steps = (
        *_remarkable(about, controller, waits),
        *_from_conditions(about, chain),
        *_from_children(about, troubled),
    )
    return Explanation(about, chain, troubled, last, tuple(dict.fromkeys(steps)))


def _remarkable(about: Standing, controller: str, waits: Sequence[str]) -> Iterable[str]:
    if about.suspended:
        yield f"`quintet resume {about.typed}`, if its controller is to go on"
    if about.deleting and waits:
        where = page(about.kind, "")
        yield f"it goes when its finalizers are done ({', '.join(waits)}): see Deleting in {where}"
    if not about.current and not about.suspended:
        yield (
            "see whether its controller runs and leads: "
            f"`quintet status quintet/quintet`, `quintet logs controller {controller}`"
        )


def _from_conditions(about: Standing, chain: Sequence[Condition]) -> Iterable[str]:
    """Of the first one that is wrong: the others follow from it."""
    wrong = [each for each in chain if mark(each) is Mark.BAD] or list(chain)
    for condition in wrong[:1]:
        step = condition.message.partition(_NEXT)[2]
        if step:
            yield step
        yield f"read about {condition.reason} in {page(about.kind, condition.reason)}"


def _from_children(about: Standing, troubled: Sequence[Child]) -> Iterable[str]:
    wrong = [each for each in troubled if each.state.mark is Mark.BAD and each.state.detail]
    # A message with a next step of its own has the cause in it already.
    if wrong and _NEXT not in about.message:
        yield f"mend what keeps {wrong[0].kind} {wrong[0].name}: {one_line(wrong[0].state.detail)}"
    pods = [each for each in troubled if each.kind == "Pod"]
    if any(each.state.word.startswith(("Running", "Failed")) for each in pods):
        yield f"read what its pods say: `quintet logs {about.typed}`"


def text(found: Explanation, now: datetime) -> list[str]:
    """The same for a screen."""
    about = found.about
    where = f"{about.namespace}/{about.name}" if about.namespace else about.name
    lines = [f"{about.kind} {where}: {about.verdict} ({about.reason})"]
    lines += [f"  {remark}" for remark in remarks(about)]
    lines += _section("why", _conditions(found.chain, now))
    lines += _section(
        "what belongs to it and is not as it should be", [_child(each) for each in found.children]
    )
    lines += _section("the last Events", aligned([row(each, now) for each in found.events]))
    if not found.chain and not found.steps:
        lines.append("nothing is wrong" if about.ready == "True" else "nothing is known to be wrong")
    return lines + _section("next", list(found.steps))


def _section(title: str, lines: list[str]) -> list[str]:
    return [title, *(f"  {line}" for line in lines)] if lines else []


def _conditions(chain: Sequence[Condition], now: datetime) -> list[str]:
    """A line for each; what was said already is not said again."""
    lines, heard = [], set[str]()
    for condition in chain:
        known = mark(condition) is Mark.BAD
        state = f"is {condition.status}," if known else "is not known yet:"
        since = age(condition.last_transition_time, now)
        said = one_line(condition.message.partition(_NEXT)[0])
        repeated = any(earlier in said for earlier in heard)
        heard |= {said} if said else set()
        lines.append(
            f"{condition.type} {state} {condition.reason} (for {since}): {'see above' if repeated else said}"
        )
    return lines


def _child(child: Child) -> str:
    detail = f": {one_line(child.state.detail)}" if child.state.detail else ""
    return f"{child.kind} {child.name}  {child.state.word}{detail}"


def document(found: Explanation) -> dict[str, Any]:
    """The same for a program."""
    about = found.about
    return {
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
        "ready": about.ready,
        "reason": about.reason,
        "remarks": remarks(about),
        "conditions": [
            {
                "type": each.type,
                "status": each.status,
                "reason": each.reason,
                "message": each.message,
                "page": page(about.kind, each.reason),
            }
            for each in found.chain
        ],
        "children": [
            {"kind": each.kind, "name": each.name, "state": each.state.word, "detail": each.state.detail}
            for each in found.children
        ],
        "events": [event_document(each) for each in found.events],
        "next": list(found.steps),
    }
