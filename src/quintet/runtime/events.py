"""Records Events that users read with `kubectl describe` (events.k8s.io/v1).

Recording never waits and never fails a reconcile: Events go into a bounded queue, and one task writes them.
An Event that repeats within some minutes becomes a series on the first one.
"""

import asyncio
import logging
from typing import NamedTuple

from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.clock import Clock, micro_timestamp
from quintet.kube.client import Client
from quintet.kube.errors import KubeError, NotFound
from quintet.observe import metrics

NORMAL, WARNING = "Normal", "Warning"
EVENTS = Resource("events.k8s.io", "v1", "Event", "events")

log = logging.getLogger(__name__)


class Event(NamedTuple):
    """An Event about the object that is reconciled."""

    type: str
    reason: str
    note: str


class _ObjectEvent(NamedTuple):
    """The fields that make two Events the same."""

    resource: Resource
    key: ObjectKey
    uid: str
    type: str
    reason: str
    action: str
    note: str


class _Series(NamedTuple):
    key: ObjectKey
    times: int
    last: float


class Recorder:
    """Records the Events of one controller."""

    _SERIES_SECONDS = 360.0
    _MAX_SERIES = 4096

    def __init__(
        self, client: Client, controller: str, instance: str, clock: Clock, *, capacity: int = 1000
    ) -> None:
        self._client = client
        self._controller = f"quintet.dev/{controller}"
        self._instance = instance[:128]
        self._clock = clock
        self._queue: asyncio.Queue[_ObjectEvent] = asyncio.Queue(capacity)
        self._series: dict[_ObjectEvent, _Series] = {}
        self._dropped = metrics.events_dropped.labels(controller)

    def record(
        self,
        resource: Resource,
        key: ObjectKey,
        uid: str,
        type: str,
        reason: str,
        note: str,
        action: str = "Reconcile",
    ) -> None:
        """Queue an Event about an object; if the queue is full, count it as dropped."""
        try:
            self._queue.put_nowait(
                _ObjectEvent(resource, key, uid, type, reason[:128], action[:128], note[:1024])
            )
        except asyncio.QueueFull:
            self._dropped.inc()

    async def run(self) -> None:
        """Write the queued Events, one at a time."""
        while True:
            event = await self._queue.get()
            try:
                await self._write(event)
            except KubeError as error:
                log.warning("Event not written", extra={"event_reason": event.reason, "error": str(error)})
            finally:
                self._queue.task_done()

    async def flush(self) -> None:
        """Wait until all queued Events are written."""
        await self._queue.join()

    async def _write(self, event: _ObjectEvent) -> None:
        now = self._clock.monotonic()
        known = self._series.get(event)
        if known is not None and now - known.last < self._SERIES_SECONDS:
            try:
                await self._repeat(event, known, now)
                return
            except NotFound:
                pass  # the server keeps Events for an hour only
        created = await self._client.create(
            EVENTS, self._body(event), Object, namespace=event.key.namespace or "default"
        )
        if len(self._series) >= self._MAX_SERIES:
            self._series.pop(next(iter(self._series)))
        self._series[event] = _Series(created.key, 1, now)

    async def _repeat(self, event: _ObjectEvent, known: _Series, now: float) -> None:
        series = {"count": known.times + 1, "lastObservedTime": micro_timestamp(self._clock.now())}
        await self._client.patch(EVENTS, known.key, {"series": series}, Object)
        self._series[event] = _Series(known.key, known.times + 1, now)

    def _body(self, event: _ObjectEvent) -> JsonObject:
        moment = self._clock.now()
        regarding = {
            "apiVersion": event.resource.api_version,
            "kind": event.resource.kind,
            "name": event.key.name,
            "uid": event.uid,
        }
        if event.key.namespace:
            regarding["namespace"] = event.key.namespace
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": f"{event.key.name}.{int(moment.timestamp() * 1e6):x}"},
            "eventTime": micro_timestamp(moment),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "type": event.type,
            "reason": event.reason,
            "action": event.action,
            "note": event.note,
            "regarding": regarding,
        }
