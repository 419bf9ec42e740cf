"""The work queue: which key next. Fed by `handlers`, drained by `controller`.

Keys are de-duplicated; a key keeps the highest priority and the earliest time that
anybody asked for. Keys of the initial list wait behind live changes, so that a restart
with many objects does not make a user wait. Failures back off per key.
"""

import asyncio
import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

from quintet.apis.meta import ObjectKey
from quintet.observe import metrics
from quintet.runtime.clock import Clock, Timer

LIVE = 0
INITIAL = 100
"""Priorities: the smaller goes first."""


class QueueClosed(Exception):
    """There is no more work: the process is going down."""


class _Entry(NamedTuple):
    priority: int
    due: float
    added: float
    number: int


class WorkQueue:
    """A de-duplicating priority queue with delays and per-key back-off."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        *,
        base_delay: float = 0.005,
        max_delay: float = 1000.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._clock = clock
        self._base_delay = base_delay
        self._max_delay = max_delay
        self._jitter = jitter
        self._numbers = itertools.count()
        self._entries: dict[ObjectKey, _Entry] = {}
        self._again: dict[ObjectKey, _Entry] = {}
        self._working: dict[ObjectKey, float] = {}
        self.failures: Counter[ObjectKey] = Counter()
        """How often the work on a key has failed in a row."""
        # Heaps may hold outdated items; the entry's number tells which one counts.
        self._ready: list[tuple[int, int, ObjectKey]] = []
        self._delayed: list[tuple[float, int, ObjectKey]] = []
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: tuple[float, Timer] | None = None
        self._closed = False
        labels = (name, name)
        self._adds = metrics.queue_adds.labels(*labels)
        self._retries = metrics.queue_retries.labels(*labels)
        self._wait_seconds = metrics.queue_wait_seconds.labels(*labels)
        self._work_seconds = metrics.queue_work_seconds.labels(*labels)
        metrics.queue_depth.labels(*labels).set_function(self.__len__)
        metrics.queue_unfinished_seconds.labels(*labels).set_function(lambda: sum(self._ages()))
        metrics.queue_longest_seconds.labels(*labels).set_function(lambda: max(self._ages(), default=0.0))

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: ObjectKey, priority: int = LIVE, after: float = 0.0) -> None:
        """Ask for a key to be worked on, now or after a while."""
        now = self._clock.monotonic()
        entries = self._again if key in self._working else self._entries
        due, added = now + after, now
        if (known := entries.get(key)) is not None:
            if known.priority <= priority and known.due <= due:
                return
            priority, due, added = min(priority, known.priority), min(due, known.due), known.added
        else:
            self._adds.inc()
        entry = entries[key] = _Entry(priority, due, added, next(self._numbers))
        if entries is self._entries:
            self._schedule(key, entry, now)

    async def get(self) -> ObjectKey:
        """The next key to work on; it is the caller's alone until `done`."""
        while True:
            if self._closed:
                raise QueueClosed
            while self._ready:
                _, number, key = heapq.heappop(self._ready)
                entry = self._entries.get(key)
                if entry is not None and entry.number == number:
                    del self._entries[key]
                    now = self._clock.monotonic()
                    self._working[key] = now
                    self._wait_seconds.observe(now - max(entry.added, min(entry.due, now)))
                    return key
            await self._wait()

    def done(self, key: ObjectKey) -> None:
        """Hand a key back; if it was asked for in the meantime, it waits in line again."""
        now = self._clock.monotonic()
        self._work_seconds.observe(now - self._working.pop(key))
        if (entry := self._again.pop(key, None)) is not None:
            self._entries[key] = entry
            self._schedule(key, entry, now)

    def retry(self, key: ObjectKey, at_least: float = 0.0) -> float:
        """Ask again after a failure, later each time; returns the delay."""
        failures = self.failures[key]
        self.failures[key] += 1
        ceiling = min(self._max_delay, self._base_delay * 2.0 ** min(failures, 60))
        # Half fixed, half random: spread out, but never at once.
        delay = max(ceiling * (0.5 + 0.5 * self._jitter()), at_least)
        self._retries.inc()
        self.add(key, after=delay)
        return delay

    def forget(self, key: ObjectKey) -> None:
        """The key succeeded: its next failure is its first."""
        self.failures.pop(key, None)

    def close(self) -> None:
        """Hand out no more work."""
        self._closed = True
        if self._timer:
            self._timer[1].cancel()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # Whoever was woken must not take the wake-up to the grave.
            if waiter.done() and not waiter.cancelled():
                self._wake()
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _schedule(self, key: ObjectKey, entry: _Entry, now: float) -> None:
        if entry.due <= now:
            heapq.heappush(self._ready, (entry.priority, entry.number, key))
            self._wake()
        else:
            heapq.heappush(self._delayed, (entry.due, entry.number, key))
            self._set_timer(entry.due, now)

    def _set_timer(self, due: float, now: float) -> None:
        if self._closed or (self._timer and self._timer[0] <= due):
            return
        if self._timer:
            self._timer[1].cancel()
        self._timer = (due, self._clock.call_later(due - now, self._release_due))

    def _release_due(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        while self._delayed:
            due, number, key = self._delayed[0]
            entry = self._entries.get(key)
            current = entry is not None and entry.number == number
            if current and due > now:
                self._set_timer(due, now)
                return
            heapq.heappop(self._delayed)
            if current and entry is not None:
                heapq.heappush(self._ready, (entry.priority, number, key))
                self._wake()

    def _ages(self) -> list[float]:
        now = self._clock.monotonic()
        return [now - started for started in self._working.values()]
