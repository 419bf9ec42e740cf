"""Lists and renders the status of objects: as a table, as lines, or as JSON-ready data."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from quintet.inspect.status import ObjectStatus, rate_condition, read_status, status_remarks
from quintet.inspect.tables import align_columns, format_age, single_line
from quintet.kube.errors import Forbidden, NotFound
from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from quintet.apis.meta import Condition, JsonObject
    from quintet.apis.resources import CustomResource
    from quintet.inspect.session import Session


class StatusList(NamedTuple):
    """The status of all objects, the kinds that could be listed, and why others could not."""

    statuses: list[ObjectStatus]
    kinds: list[CustomResource]
    remarks: list[str]


async def list_statuses(session: Session, kinds: Sequence[CustomResource], labels: str = "") -> StatusList:
    """Return the status of all objects of these kinds.

    Raises an error if no kind could be listed.
    """
    answers = await asyncio.gather(*(_list(session, kind, labels) for kind in kinds), return_exceptions=True)
    found = StatusList([], [], [])
    for kind, answer in zip(kinds, answers, strict=True):
        match answer:
            case NotFound():
                found.remarks.append(f"{kind.resource.kind}: the cluster does not serve this kind")
            case Forbidden() if (
                len(kinds) > 1 and not kind.resource.namespaced and not session.all_namespaces
            ):
                pass  # Users of one namespace are seldom permitted to list what belongs to the cluster.
            case Forbidden() if len(kinds) > 1:
                found.remarks.append(f"{kind.resource.kind}: no permission to list them in {session.scope}")
            case BaseException():
                raise answer
            case list():
                found.statuses.extend(read_status(kind, each) for each in answer)
                found.kinds.append(kind)
    if not found.kinds:
        raise LocalError(
            f"cannot list any of these objects ({found.remarks[0]})",
            "run `quintet doctor` to check the installation and your permissions",
        )
    return found


async def _list(session: Session, kind: CustomResource, labels: str) -> list[JsonObject]:
    resource, found = kind.resource, []
    namespace = session.list_namespace if resource.namespaced else ""
    async for page in session.client.pages(resource, namespace=namespace, labels=labels):
        found += [msgspec.json.decode(item) for item in page.items]
    return sorted(found, key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"]))


def status_table(
    found: Sequence[ObjectStatus], now: datetime, *, namespaces: bool = False, wide: bool = False
) -> list[tuple[str, ...]]:
    """Return a header and one row per object; the longest column is the last."""
    rows = [("NAMESPACE", "NAME", "READY", "REASON", "AGE", "FACTS", "MESSAGE")]
    for each in found:
        message = "; ".join((*status_remarks(each), single_line(each.message)))
        columns = ", ".join(f"{name}={single_line(value)}" for name, value in each.facts)
        age = format_age(each.created, now)
        rows.append((each.namespace, each.typed, each.ready, each.reason, age, columns, message))
    hidden = {0: not namespaces, 5: not wide}
    return [tuple(cell for column, cell in enumerate(row) if not hidden.get(column)) for row in rows]


def status_document(found: ObjectStatus) -> dict[str, Any]:
    """Return the status as JSON-ready data."""
    conditions = [
        {
            "type": each.type,
            "status": each.status,
            "reason": each.reason,
            "message": each.message,
            "lastTransitionTime": each.last_transition_time,
            "mark": str(rate_condition(each)),
        }
        for each in found.conditions
    ]
    return asdict(found) | {"conditions": conditions, "facts": dict(found.facts), "current": found.current}


def status_lines(found: ObjectStatus, now: datetime | None) -> list[str]:
    """Return one object in full; without `now`, the lines contain no ages and change only with the object."""
    name = f"{found.namespace}/{found.name}" if found.namespace else found.name
    shown = [f"{found.kind} {name}: {found.verdict} ({found.reason})"]
    shown += [f"  {remark}" for remark in status_remarks(found)]
    facts = [*found.facts, *([("Age", format_age(found.created, now))] if now else [])]
    shown += [f"  {line}" for line in align_columns([(key, single_line(value)) for key, value in facts])]
    rows = [_condition_row(each, now) for each in found.conditions]
    return [*shown, *(["conditions"] if rows else []), *(f"  {line}" for line in align_columns(rows))]


def _condition_row(condition: Condition, now: datetime | None) -> tuple[str, ...]:
    since = f" (for {format_age(condition.last_transition_time, now)})" if now else ""
    state = f"{condition.status} {condition.reason}"
    return (
        str(rate_condition(condition)),
        condition.type,
        state,
        f"{single_line(condition.message)}{since}",
    )
