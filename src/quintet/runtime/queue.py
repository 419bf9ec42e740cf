"""The work queue of a controller.

Keys are de-duplicated; a key keeps the highest priority and the earliest time with which it was added. Keys
of the initial list wait behind live changes, so that a restart with many objects does not make a user wait,
and a key keeps its priority when it is requeued after a failure or a delay. Failures back off per key, and
all keys together are retried at most 50 times a second after a burst of 500: if everything fails at once, the
API server gets no storm. A paused queue accepts no keys.
"""

import asyncio
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

from quintet.apis.meta import ObjectKey
from quintet.clock import Clock, Timer
from quintet.kube.rates import RetryLimit
from quintet.observe import metrics

LIVE = 0
INITIAL = 100
"""Priorities: the smallest goes first."""


class QueueClosed(Exception):
    """The queue hands out no more keys: the process is shutting down."""


@dataclass(slots=True)
class _Entry:
    """A waiting key: ready if it has no timer, else ready when its timer ends."""

    priority: int
    due: float
    added: float
    timer: Timer | None = None


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
        self._entries: dict[ObjectKey, _Entry] = {}
        self._again: dict[ObjectKey, _Entry] = {}
        self._working: dict[ObjectKey, tuple[float, int]] = {}
        self.failures: Counter[ObjectKey] = Counter()
        """How many reconciles of a key have failed in a row."""
        # By priority, in the order of arrival.
        self._ready: dict[int, OrderedDict[ObjectKey, None]] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._paused = self._closed = False
        self._limit = RetryLimit(clock)
        labels = (name, name)
        self._adds = metrics.queue_adds.labels(*labels)
        self._retries = metrics.queue_retries.labels(*labels)
        self._wait_seconds = metrics.queue_wait_seconds.labels(*labels)
        self._work_seconds = metrics.queue_work_seconds.labels(*labels)
        metrics.queue_depth.labels(*labels).set_function(self.__len__)
        metrics.queue_unfinished_seconds.labels(*labels).set_function(lambda: sum(self._ages()))
        metrics.queue_longest_seconds.labels(*labels).set_function(lambda: max(self._ages(), default=0.0))

    def __len__(self) -> int:
        """Return the number of keys that are ready; delayed keys do not count."""
        return sum(map(len, self._ready.values()))

    def add(self, key: ObjectKey, priority: int = LIVE, after: float = 0.0) -> None:
        """Add a key, now or after a delay. A paused queue ignores it."""
        if self._paused or self._closed:
            return
        now = self._clock.monotonic()
        entries = self._again if key in self._working else self._entries
        due, added = now + after, now
        if (known := entries.get(key)) is not None:
            if known.priority <= priority and known.due <= due:
                return
            priority, due, added = min(priority, known.priority), min(due, known.due), known.added
            if entries is self._entries:
                self._unschedule(key, known)
        else:
            self._adds.inc()
        entry = entries[key] = _Entry(priority, due, added)
        if entries is self._entries:
            self._schedule(key, entry, now)

    async def get(self) -> ObjectKey:
        """Wait for the next key; no other worker gets it until `done`."""
        while True:
            if self._closed:
                raise QueueClosed
            if self._ready:
                priority = min(self._ready)
                key, _ = self._ready[priority].popitem(last=False)
                self._drop_empty(priority)
                entry = self._entries.pop(key)
                now = self._clock.monotonic()
                self._working[key] = (now, priority)
                self._wait_seconds.observe(now - max(entry.added, min(entry.due, now)))
                return key
            await self._wait()

    def done(self, key: ObjectKey) -> None:
        """Finish a key; if it was added meanwhile, it is queued again."""
        now = self._clock.monotonic()
        self._work_seconds.observe(now - self._working.pop(key)[0])
        if (entry := self._again.pop(key, None)) is not None:
            self._entries[key] = entry
            self._schedule(key, entry, now)

    def priority(self, key: ObjectKey) -> int:
        """Return the priority of a key in progress, which retries of it keep."""
        return self._working[key][1] if key in self._working else LIVE

    def retry(self, key: ObjectKey, at_least: float = 0.0) -> float:
        """Requeue a key after a failure with growing delays; return the delay."""
        failures = self.failures[key]
        self.failures[key] += 1
        ceiling = min(self._max_delay, self._base_delay * 2.0 ** min(failures, 60))
        # Half fixed, half random: retries spread, but none is immediate.
        limit = self._limit.reserve(len(self._entries) + len(self._again))
        delay = max(ceiling * (0.5 + 0.5 * self._jitter()), at_least, limit)
        self._retries.inc()
        self.add(key, self.priority(key), after=delay)
        return delay

    def forget(self, key: ObjectKey) -> None:
        """Reset the failures of a key that succeeded."""
        self.failures.pop(key, None)

    def pause(self) -> set[ObjectKey]:
        """Drop all keys and accept none until `resume`; return those that were waiting."""
        waiting = {*self._entries, *self._again}
        self._paused = True
        for entry in self._entries.values():
            if entry.timer is not None:
                entry.timer.cancel()
        for kept in (self._entries, self._again, self._ready, self.failures):
            kept.clear()
        return waiting

    def resume(self) -> None:
        """Accept keys from now on."""
        self._paused = False

    def close(self) -> None:
        """Hand out no more keys."""
        self.pause()
        self._closed = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # A cancelled worker passes its wake-up on to another one.
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
            self._make_ready(key, entry)
        else:
            entry.timer = self._clock.call_later(entry.due - now, lambda: self._make_ready(key, entry))

    def _make_ready(self, key: ObjectKey, entry: _Entry) -> None:
        entry.timer = None
        self._ready.setdefault(entry.priority, OrderedDict())[key] = None
        self._wake()

    def _unschedule(self, key: ObjectKey, entry: _Entry) -> None:
        if entry.timer is not None:
            entry.timer.cancel()
        else:
            del self._ready[entry.priority][key]
            self._drop_empty(entry.priority)

    def _drop_empty(self, priority: int) -> None:
        if not self._ready[priority]:
            del self._ready[priority]

    def _ages(self) -> list[float]:
        now = self._clock.monotonic()
        return [now - started for started, _ in self._working.values()]
