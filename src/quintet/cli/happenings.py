"""Events of Kubernetes as people read them: what happened to which object, when last, and how often. Pure.

Called by `events` and `explain`. Events come from old recorders and new ones, which write time and
number in different fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quintet.cli.tables import age, moment, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from quintet.apis.meta import JsonObject

HEAD = ("LAST", "TYPE", "REASON", "OBJECT", "MESSAGE")


@dataclass(frozen=True, slots=True)
class Happening:
    """One Event, or a series of the same."""

    id: str
    version: str
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    """Of the object that it is about."""
    type: str
    reason: str
    note: str
    last: str
    times: int

    @property
    def bad(self) -> bool:
        """Whether it tells of trouble."""
        return self.type == "Warning"

    @property
    def about(self) -> str:
        """The object that it is about, as it is typed."""
        return f"{self.kind.lower()}/{self.name}"


def happening(event: JsonObject) -> Happening:
    """An Event as the API server gives it (events.k8s.io/v1)."""
    meta, about, series = event["metadata"], event.get("regarding") or {}, event.get("series") or {}
    times = [
        series.get("lastObservedTime"),
        event.get("deprecatedLastTimestamp"),
        event.get("eventTime"),
        meta.get("creationTimestamp"),
    ]
    return Happening(
        id=meta.get("uid", ""),
        version=meta.get("resourceVersion", ""),
        api_version=about.get("apiVersion", ""),
        kind=about.get("kind", ""),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        uid=about.get("uid", ""),
        type=event.get("type") or "Normal",
        reason=event.get("reason") or "",
        note=event.get("note") or "",
        last=next((text for text in times if moment(text) is not None), ""),
        times=int(series.get("count") or event.get("deprecatedCount") or 1),
    )


def in_time(found: Iterable[Happening]) -> list[Happening]:
    """Oldest first; those without a time before all others."""

    def when(each: Happening) -> tuple[float, str]:
        last = moment(each.last)
        return (last.timestamp() if last else 0.0, each.id)

    return sorted(found, key=when)


def row(each: Happening, now: datetime, *, namespaces: bool = False) -> tuple[str, ...]:
    """One line of a table."""
    last = age(each.last, now) + (f" (x{each.times})" if each.times > 1 else "")
    place = (each.namespace,) if namespaces else ()
    return (*place, last, each.type, each.reason, each.about, one_line(each.note))


def table(found: Sequence[Happening], now: datetime, *, namespaces: bool = False) -> list[tuple[str, ...]]:
    """A head and a row for each."""
    head = ("NAMESPACE", *HEAD) if namespaces else HEAD
    return [head, *(row(each, now, namespaces=namespaces) for each in found)]


def document(each: Happening) -> dict[str, Any]:
    """The same for a program."""
    return {
        "last": each.last,
        "count": each.times,
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
