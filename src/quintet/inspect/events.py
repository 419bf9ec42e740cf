"""Events of Kubernetes in one format, and as table rows and JSON-ready data. Pure.

Old and new event recorders write time and count into different fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quintet.inspect.tables import format_age, parse_time, single_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from quintet.apis.meta import JsonObject

COLUMNS = ("LAST", "TYPE", "REASON", "OBJECT", "MESSAGE")


@dataclass(frozen=True, slots=True)
class EventSummary:
    """One Event, or a series of equal Events."""

    id: str
    resource_version: str
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    """The uid of the object that the Event is about."""
    type: str
    reason: str
    note: str
    last: str
    count: int

    @property
    def is_warning(self) -> bool:
        return self.type == "Warning"

    @property
    def object_name(self) -> str:
        """The object that the Event is about, as KIND/NAME."""
        return f"{self.kind.lower()}/{self.name}"


def parse_event(event: JsonObject) -> EventSummary:
    """Return the summary of an Event of events.k8s.io/v1."""
    meta, about, series = event["metadata"], event.get("regarding") or {}, event.get("series") or {}
    times = [
        series.get("lastObservedTime"),
        event.get("deprecatedLastTimestamp"),
        event.get("eventTime"),
        meta.get("creationTimestamp"),
    ]
    return EventSummary(
        id=meta.get("uid", ""),
        resource_version=meta.get("resourceVersion", ""),
        api_version=about.get("apiVersion", ""),
        kind=about.get("kind", ""),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        uid=about.get("uid", ""),
        type=event.get("type") or "Normal",
        reason=event.get("reason") or "",
        note=event.get("note") or "",
        last=next((text for text in times if parse_time(text) is not None), ""),
        count=int(series.get("count") or event.get("deprecatedCount") or 1),
    )


def sort_by_time(found: Iterable[EventSummary]) -> list[EventSummary]:
    """Return the Events, oldest first; those without a time come before all others."""

    def time_and_id(each: EventSummary) -> tuple[float, str]:
        last = parse_time(each.last)
        return (last.timestamp() if last else 0.0, each.id)

    return sorted(found, key=time_and_id)


def event_row(each: EventSummary, now: datetime, *, namespaces: bool = False) -> tuple[str, ...]:
    """Return the cells of one table row."""
    last = format_age(each.last, now) + (f" (x{each.count})" if each.count > 1 else "")
    place = (each.namespace,) if namespaces else ()
    return (*place, last, each.type, each.reason, each.object_name, single_line(each.note))


def event_table(
    found: Sequence[EventSummary], now: datetime, *, namespaces: bool = False
) -> list[tuple[str, ...]]:
    """Return a header and one row per Event."""
    head = ("NAMESPACE", *COLUMNS) if namespaces else COLUMNS
    return [head, *(event_row(each, now, namespaces=namespaces) for each in found)]


def event_document(each: EventSummary) -> dict[str, Any]:
    """Return the Event as JSON-ready data."""
    return {
        "last": each.last,
        "count": each.count,
        "type": each.type,
        "reason": each.reason,
        "note": each.note,
        "regarding": {
            "apiVersion": each.api_version,
            "kind": each.kind,
            "namespace": each.namespace,
            "name": each.name,
            "uid": each.uid,
        },
    }
