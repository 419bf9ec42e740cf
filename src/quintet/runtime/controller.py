"""The worker loop: takes keys from `queue`, calls the kind's `reconcile`, deals with the outcome.

Made by `builder`, run by `manager` while this process leads. What the queue and the metrics
are told of an outcome stands in `_work_on`, next to the outcome itself.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Any

from quintet.apis.meta import ObjectKey
from quintet.clock import Clock
from quintet.kube.errors import KubeError, WriteFenced
from quintet.observe import metrics
from quintet.observe.logging import reconciling
from quintet.runtime.cache import Store, Undecodable
from quintet.runtime.ownwrites import OwnWrites
from quintet.runtime.queue import INITIAL, QueueClosed, WorkQueue
from quintet.runtime.reconcile import Reconcile, TerminalError

log = logging.getLogger(__name__)


class Controller:
    """One kind's queue and workers."""

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
        timeout: float = 300.0,
        on_undecodable: Callable[[Undecodable], None] = lambda item: None,
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
        self._left: set[ObjectKey] = set()
        """What this controller knew when it led last: some of it may be gone by now."""
        # Until it runs, and on a standby for ever: whoever begins to lead looks at everything.
        queue.pause()
        metrics.max_workers.labels(name).set(workers)

    async def run(self) -> None:
        """Work until the queue is closed. A new leader looks at everything once."""
        self.queue.resume()
        for key in dict.fromkeys((*self._primary.all_keys(), *self._left)):
            self.queue.add(key, INITIAL)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            self._left = {*self.queue.pause(), *self._primary.all_keys()}

    async def _work(self) -> None:
        busy = metrics.active_workers.labels(self.name)
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            busy.inc()
            try:
                if not self._put_aside(key):
                    await self._work_on(key)
            finally:
                busy.dec()
                self.queue.done(key)

    def _put_aside(self, key: ObjectKey) -> bool:
        """Whether a cache has yet to see our own last writes for this key; it comes back when it has."""
        missing = self._writes.missing(key)
        if missing is None:
            return False
        store, version = missing
        priority = self.queue.priority(key)
        store.call_when_passed(version, lambda: self.queue.add(key, priority))
        return True

    async def _work_on(self, key: ObjectKey) -> None:
        started = self._clock.monotonic()
        with reconciling(self.name, key, secrets.token_hex(4)):
            try:
                if (broken := self._primary.broken.get(key)) is not None:
                    self._on_undecodable(broken)
                    raise TerminalError(f"the object does not fit its type: {broken.problem}")
                async with asyncio.timeout(self._timeout):
                    result = await self._reconcile(key)
            except TerminalError as error:
                log.error(
                    "Reconciliation cannot succeed until the object changes", extra={"error": str(error)}
                )
                metrics.terminal_errors.labels(self.name).inc()
                self._failed()
                self.queue.forget(key)
            except WriteFenced:
                # Whoever leads next looks at everything. But if our renewal was only late, that is nobody,
                # and the key must not be lost.
                self.queue.retry(key)
                log.info("Reconciliation stopped: no longer leading")
            except (KubeError, TimeoutError, ExceptionGroup) as error:
                if isinstance(error, TimeoutError):
                    metrics.reconcile_timeouts.labels(self.name).inc()
                self._failed()
                delay = self.queue.retry(key, _asked_delay(error))
                log.warning(
                    "Reconciliation failed", extra={"error": _text(error), "retry_seconds": round(delay, 3)}
                )
            except Exception:
                metrics.reconcile_panics.labels(self.name).inc()
                self._failed()
                delay = self.queue.retry(key)
                log.exception("Reconciliation crashed", extra={"retry_seconds": round(delay, 3)})
            else:
                self.queue.forget(key)
                if result.delay is not None:
                    self.queue.add(key, self.queue.priority(key), after=result.delay)
                outcome = "success" if result.delay is None else "requeue_after"
                metrics.reconcile_total.labels(self.name, outcome).inc()
            metrics.reconcile_seconds.labels(self.name).observe(self._clock.monotonic() - started)

    def _failed(self) -> None:
        metrics.reconcile_total.labels(self.name, "error").inc()
        metrics.reconcile_errors.labels(self.name).inc()


def _asked_delay(error: BaseException) -> float:
    """How long the API server wants us to stay away."""
    if isinstance(error, BaseExceptionGroup):
        return max(map(_asked_delay, error.exceptions))
    return getattr(error, "retry_after", None) or 0.0


def _text(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(_text, error.exceptions))
    return str(error) or type(error).__name__
