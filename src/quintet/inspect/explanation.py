"""Explains an object's status and the next steps, from its conditions, children and Events. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quintet.inspect.events import event_document, event_row, sort_by_time
from quintet.inspect.reasons import find_page, find_reason
from quintet.inspect.status import Rating, rate_condition, status_remarks
from quintet.inspect.tables import align_columns, format_age, single_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from quintet.apis.meta import Condition
    from quintet.inspect.events import EventSummary
    from quintet.inspect.states import ChildState
    from quintet.inspect.status import ObjectStatus

MAX_EVENTS = 10
"""The number of Events that are shown."""
_NEXT = "; next: "


@dataclass(frozen=True, slots=True)
class Child:
    """A child of the object, and its state."""

    kind: str
    name: str
    state: ChildState


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an object has its status, and what to do."""

    about: ObjectStatus
    chain: tuple[Condition, ...]
    """Conditions that are bad or unknown, causes first."""
    children: tuple[Child, ...]
    events: tuple[EventSummary, ...]
    steps: tuple[str, ...]


def build_explanation(
    about: ObjectStatus,
    children: Iterable[Child],
    events: Iterable[EventSummary],
    *,
    controller: str,
    waits: Sequence[str],
) -> Explanation:
    """Return the explanation; `waits` are the finalizers of the object."""
    chain = tuple(each for each in about.conditions if rate_condition(each) in (Rating.BAD, Rating.OPEN))
    troubled = tuple(each for each in children if each.state.rating in (Rating.BAD, Rating.OPEN))
    last = tuple(sort_by_time(events)[-MAX_EVENTS:])
    steps = (
        *_steps_from_metadata(about, controller, waits),
        *_steps_from_messages(chain),
        *_steps_from_children(about, troubled),
        *_documented_steps(about, chain),
        *_pages_of_conditions(about, chain),
    )
    return Explanation(about, chain, troubled, last, tuple(dict.fromkeys(steps)))


def _steps_from_metadata(about: ObjectStatus, controller: str, waits: Sequence[str]) -> Iterable[str]:
    if about.suspended:
        yield f"`quintet resume {about.typed}`, to continue its reconciliation"
    if about.deleting and waits:
        where = find_page(about.kind, "")
        yield f"deletion waits for its finalizers ({', '.join(waits)}): see Deleting in {where}"
        yield f"check that its controller runs: `quintet doctor`, `quintet logs controller {controller}`"
    if not about.current and not about.suspended:
        yield (
            "check that its controller runs and is the leader: "
            f"`quintet status quintet/quintet`, `quintet logs controller {controller}`"
        )


def _first_cause(chain: Sequence[Condition]) -> Sequence[Condition]:
    """Return the first bad condition, from which the others follow; without one, the first unknown one."""
    return ([each for each in chain if rate_condition(each) is Rating.BAD] or list(chain))[:1]


def _steps_from_messages(chain: Sequence[Condition]) -> Iterable[str]:
    for condition in _first_cause(chain):
        if step := condition.message.partition(_NEXT)[2]:
            yield step


def _documented_steps(about: ObjectStatus, chain: Sequence[Condition]) -> Iterable[str]:
    """Yield what the documentation says of the reason, unless the message has its own next step."""
    for condition in _first_cause(chain):
        entry = find_reason(about.kind, condition.reason, condition.type)
        if entry and entry.action and _NEXT not in condition.message:
            yield entry.action


def _pages_of_conditions(about: ObjectStatus, chain: Sequence[Condition]) -> Iterable[str]:
    for condition in _first_cause(chain):
        yield f"see {condition.reason} in {find_page(about.kind, condition.reason)}"


def _steps_from_children(about: ObjectStatus, troubled: Sequence[Child]) -> Iterable[str]:
    wrong = [each for each in troubled if each.state.rating is Rating.BAD and each.state.detail]
    # A message with its own next step already contains the cause.
    if wrong and _NEXT not in about.message:
        yield f"fix {wrong[0].kind} {wrong[0].name}: {single_line(wrong[0].state.detail)}"
    pods = [each for each in troubled if each.kind == "Pod"]
    if any(each.state.word.startswith(("Running", "Failed")) for each in pods):
        yield f"read the logs of its pods: `quintet logs {about.typed}`"


def explanation_lines(found: Explanation, now: datetime) -> list[str]:
    """Return the explanation as lines of text."""
    about = found.about
    where = f"{about.namespace}/{about.name}" if about.namespace else about.name
    lines = [f"{about.kind} {where}: {about.verdict} ({about.reason})"]
    lines += [f"  {remark}" for remark in status_remarks(about)]
    lines += _section("why", _conditions(found.chain, now))
    lines += _section("children with problems", [_child(each) for each in found.children])
    lines += _section("last Events", align_columns([event_row(each, now) for each in found.events]))
    if not found.chain and not found.steps:
        lines.append("no problems" if about.ready == "True" else "no known problems")
    return lines + _section("next", list(found.steps))


def _section(title: str, lines: list[str]) -> list[str]:
    return [title, *(f"  {line}" for line in lines)] if lines else []


def _conditions(chain: Sequence[Condition], now: datetime) -> list[str]:
    """Return one line per condition; a repeated message is replaced by a reference."""
    lines, seen_messages = [], set[str]()
    for condition in chain:
        known = rate_condition(condition) is Rating.BAD
        state = f"is {condition.status}," if known else "is unknown:"
        since = format_age(condition.last_transition_time, now)
        message = single_line(condition.message.partition(_NEXT)[0])
        repeated = any(earlier in message for earlier in seen_messages)
        seen_messages |= {message} if message else set()
        text = "see above" if repeated else message
        lines.append(f"{condition.type} {state} {condition.reason} (for {since}): {text}")
    return lines


def _child(child: Child) -> str:
    detail = f": {single_line(child.state.detail)}" if child.state.detail else ""
    return f"{child.kind} {child.name}  {child.state.word}{detail}"


def explanation_document(found: Explanation) -> dict[str, Any]:
    """Return the explanation as JSON-ready data."""
    about = found.about
    return {
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
        "ready": about.ready,
        "reason": about.reason,
        "remarks": status_remarks(about),
        "conditions": [
            {
                "type": each.type,
                "status": each.status,
                "reason": each.reason,
                "message": each.message,
                "page": find_page(about.kind, each.reason),
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
