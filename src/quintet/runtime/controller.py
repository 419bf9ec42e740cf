"""The workers of one controller: take keys from the queue, reconcile them, and requeue or retry."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable
from typing import Any

from quintet.apis.meta import ObjectKey
from quintet.clock import Clock
from quintet.kube.errors import KubeError, WriteFenced
from quintet.observe import metrics
from quintet.observe.logging import reconcile_context
from quintet.runtime.cache import Store, Undecodable
from quintet.runtime.ownwrites import OwnWrites
from quintet.runtime.queue import INITIAL, QueueClosed, WorkQueue
from quintet.runtime.reconcile import Reconcile, TerminalError

TIMEOUT = 300.0
"""Seconds that one reconcile may take."""

log = logging.getLogger(__name__)


class Controller:
    """The queue and workers of one kind."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        queue: WorkQueue,
        primary: Store[Any],
        writes: OwnWrites,
        clock: Clock,
        *,
        workers: int = 8,
        timeout: float | None = TIMEOUT,
        on_undecodable: Callable[[Undecodable], None] = lambda item: None,
        caches: Iterable[Store[Any]] = (),
    ) -> None:
        self.name = name
        self.queue = queue
        self._reconcile = reconcile
        self._primary = primary
        self._writes = writes
        self._clock = clock
        self._workers = workers
        self._timeout = timeout
        self._on_undecodable = on_undecodable
        self._caches = tuple(caches)
        self._parked: set[ObjectKey] = set()
        """Keys of which a cache has no list yet: the server refuses it, or refuses it in their namespace."""
        for cache in self._caches:
            cache.on_synced.append(self._requeue_parked)
        self._known_before: set[ObjectKey] = set()
        """The keys known at the end of the last leadership: some objects may be gone since."""
        # A standby queues nothing: a new leader reconciles everything.
        queue.pause()
        metrics.max_workers.labels(name).set(workers)

    async def run(self) -> None:
        """Work until the queue is closed. A new leader reconciles every object once."""
        self.queue.resume()
        for key in dict.fromkeys((*self._primary.all_keys(), *self._known_before)):
            self.queue.add(key, INITIAL)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            self._known_before = {*self.queue.pause(), *self._parked, *self._primary.all_keys()}
            self._parked.clear()

    async def _work(self) -> None:
        busy = metrics.active_workers.labels(self.name)
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            busy.inc()
            try:
                if not self._wait_for_cache(key):
                    await self._reconcile_key(key)
            finally:
                busy.dec()
                self.queue.done(key)

    def _wait_for_cache(self, key: ObjectKey) -> bool:
        """Return whether a cache has no list, or not our last writes for this key; it is requeued then."""
        if not all(cache.is_synced(key.namespace) for cache in self._caches):
            self._parked.add(key)
            return True
        missing = self._writes.find_stale_cache(key)
        if missing is None:
            return False
        store, source, version = missing
        priority = self.queue.priority(key)
        store.call_when_passed(version, lambda: self.queue.add(key, priority), source)
        return True

    def _requeue_parked(self) -> None:
        parked, self._parked = self._parked, set()
        for key in parked:
            self.queue.add(key, INITIAL)

    async def _reconcile_key(self, key: ObjectKey) -> None:
        started = self._clock.monotonic()
        with reconcile_context(self.name, key, secrets.token_hex(4)):
            try:
                if (undecodable := self._primary.undecodable.get(key)) is not None:
                    self._on_undecodable(undecodable)
                    raise TerminalError(f"the object does not fit its schema: {undecodable.problem}")
                async with asyncio.timeout(self._timeout):
                    result = await self._reconcile(key)
            except TerminalError as error:
                log.error(
                    "Reconciliation cannot succeed until the object changes", extra={"error": str(error)}
                )
                metrics.terminal_errors.labels(self.name).inc()
                self._count_failure()
                self.queue.forget(key)
            except WriteFenced:
                # The next leader reconciles everything. But if our renewal was only late, there is none, and
                # the key must not be lost.
                self.queue.retry(key)
                log.info("Reconciliation stopped: no longer leading")
            except (KubeError, TimeoutError, ExceptionGroup) as error:
                if isinstance(error, TimeoutError):
                    metrics.reconcile_timeouts.labels(self.name).inc()
                self._count_failure()
                delay = self.queue.retry(key, _retry_after(error))
                log.warning(
                    "Reconciliation failed",
                    extra={"error": _message(error), "retry_seconds": round(delay, 3)},
                )
            except Exception:
                metrics.reconcile_panics.labels(self.name).inc()
                self._count_failure()
                delay = self.queue.retry(key)
                log.exception("Reconciliation crashed", extra={"retry_seconds": round(delay, 3)})
            else:
                self.queue.forget(key)
                if result.delay is not None:
                    self.queue.add(key, self.queue.priority(key), after=result.delay)
                outcome = "success" if result.delay is None else "requeue_after"
                metrics.reconcile_total.labels(self.name, outcome).inc()
            metrics.reconcile_seconds.labels(self.name).observe(self._clock.monotonic() - started)

    def _count_failure(self) -> None:
        metrics.reconcile_total.labels(self.name, "error").inc()
        metrics.reconcile_errors.labels(self.name).inc()


def _retry_after(error: BaseException) -> float:
    """Return the longest Retry-After of the API server, in seconds."""
    if isinstance(error, BaseExceptionGroup):
        return max(map(_retry_after, error.exceptions))
    return getattr(error, "retry_after", None) or 0.0


def _message(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(_message, error.exceptions))
    return str(error) or type(error).__name__
