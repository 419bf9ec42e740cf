"""Collects logs, container states and Events of a failed run before its objects are removed.

A log that cannot be read is noted and does not keep the run from ending. Only an overloaded API server is
retried.
"""

import asyncio

import msgspec

from quintet.apis.checkup.evidence import (
    EVENT_LENGTH,
    LOG_BYTES,
    MOST_CONTAINERS,
    MOST_EVENTS,
    EventNote,
    Evidence,
    Log,
)
from quintet.apis.meta import Object, Resource, Struct
from quintet.apis.text import truncate
from quintet.controllers.checkup.decide.observed import CheckupPod, describe
from quintet.kube.client import Client
from quintet.kube.errors import ApiError, TooManyRequests

EVENTS = Resource("", "v1", "Event", "events")
# The API server sends the beginning of what it was asked for: if the last lines are too many bytes, fewer are
# requested, so that the log ends with its end.
_LINES = (100, 10, 1)
_MOST_BYTES = 512 * 1024
_PATIENCE = 10.0
_LISTED = 100


class _About(Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _Series(Struct, frozen=True):
    count: int = 0
    last_observed_time: str | None = None


class _Event(Object, frozen=True):
    involved_object: _About = _About()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None


_decode = msgspec.json.Decoder(_Event).decode


async def gather(client: Client, namespace: str, job_uid: str, pod: CheckupPod | None) -> Evidence:
    """Collect the evidence of a run; logs first, because they disappear first."""
    if pod is None:
        return Evidence(events=_last(await events(client, namespace, job_uid) if job_uid else []))
    containers = pod.containers[:MOST_CONTAINERS]
    names = [container.name for container in containers if container.has_started]
    logs = await asyncio.gather(*(read_log(client, pod, name) for name in names))
    found = await asyncio.gather(
        *(events(client, namespace, uid) for uid in (job_uid, pod.metadata.uid) if uid)
    )
    return Evidence(
        pod=pod.metadata.name,
        node=pod.spec.node_name,
        containers=tuple(describe(container) for container in containers),
        logs=tuple(logs),
        events=_last([note for notes in found for note in notes]),
    )


async def events(client: Client, namespace: str, uid: str) -> list[EventNote]:
    """Return the Events of one object, oldest first, from one page."""
    pages = client.pages(EVENTS, namespace=namespace, fields=f"involvedObject.uid={uid}", page_size=_LISTED)
    async for page in pages:
        return sorted((_note(_decode(raw)) for raw in page.items), key=_last_seen)
    return []


def tail(text: bytes) -> str:
    """Return the last bytes of a log, starting at a whole character."""
    return (
        text[-LOG_BYTES:].decode(errors="ignore") if len(text) > LOG_BYTES else text.decode(errors="replace")
    )


async def read_log(client: Client, pod: CheckupPod, container: str) -> Log:
    """Return the end of the log of a container, or why there is none."""
    try:
        async with asyncio.timeout(_PATIENCE):
            text = b""
            for lines in _LINES:
                text = await client.logs(pod.key, container, lines=lines, limit=_MOST_BYTES)
                if len(text) < _MOST_BYTES:
                    break
    except TooManyRequests:
        raise
    except ApiError as error:
        return Log(container, note=truncate(f"the log could not be read: {error.message}", 1024))
    except TimeoutError:
        return Log(container, note=f"the log could not be read: no response in {_PATIENCE:g} s")
    return Log(container, tail(text).replace("\0", ""))


def _last(notes: list[EventNote]) -> tuple[EventNote, ...]:
    return tuple(sorted(notes, key=_last_seen)[-MOST_EVENTS:])


def _last_seen(note: EventNote) -> str:
    return note.last_seen or ""


def _note(event: _Event) -> EventNote:
    series = event.series or _Series()
    return EventNote(
        about=f"{event.involved_object.kind} {event.involved_object.name}",
        type=event.type,
        reason=event.reason[:128],
        message=event.message[:EVENT_LENGTH],
        count=series.count or event.count or 1,
        last_seen=series.last_observed_time or event.last_timestamp or event.event_time,
    )
