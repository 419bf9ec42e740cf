"""Clocks for tests: one that a test moves, and one that can run fast."""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from quintet.clock import SystemClock


class _Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualClock:
    """A `quintet.clock.Clock` that a test moves; timers that become due fire in order."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self._timers: list[tuple[float, int, _Timer]] = []
        self._numbers = itertools.count()

    def monotonic(self) -> float:
        return self.elapsed

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.elapsed)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(callback)
        heapq.heappush(self._timers, (self.elapsed + seconds, next(self._numbers), timer))
        return timer

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.call_later(seconds, lambda: None if future.done() else future.set_result(None))
        await future

    async def advance(self, seconds: float) -> None:
        """Move the clock forward and let tasks run after every timer."""
        target = self.elapsed + seconds
        await settle()
        while self._timers and self._timers[0][0] <= target:
            due, _, timer = heapq.heappop(self._timers)
            self.elapsed = max(self.elapsed, due)
            if timer.callback is not None:
                timer.callback()
            await settle()
        self.elapsed = target


async def settle() -> None:
    """Let every runnable task run."""
    for _ in range(20):
        await asyncio.sleep(0)


class FastClock(SystemClock):
    """The system clock, which a test can speed up so that requeues and back-off take no real time.

    Only code that uses this clock runs fast; API servers and kubelets do not.
    """

    def __init__(self) -> None:
        self._speed = 1.0
        self._real, self._passed = super().monotonic(), super().monotonic()
        self._date, self._started = super().now(), self._passed
        self._timers: set[_FastTimer] = set()

    def monotonic(self) -> float:
        return self._passed + (super().monotonic() - self._real) * self._speed

    def now(self) -> datetime:
        return self._date + timedelta(seconds=self.monotonic() - self._started)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> "_FastTimer":
        timer = _FastTimer(self.monotonic() + seconds, callback, self._timers.discard)
        self._timers.add(timer)
        timer.schedule(seconds / self._speed)
        return timer

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, lambda: None if future.done() else future.set_result(None))
        try:
            await future
        finally:
            timer.cancel()

    @contextmanager
    def running_fast(self, speed: float = 30.0) -> Iterator[None]:
        """Multiply the clock's speed while inside, also for timers that are already set."""
        self._set_speed(speed)
        try:
            yield
        finally:
            self._set_speed(1.0)

    def _set_speed(self, speed: float) -> None:
        self._passed, self._real = self.monotonic(), super().monotonic()
        self._speed = speed
        for timer in self._timers:
            timer.schedule((timer.due - self._passed) / speed)


class _FastTimer:
    def __init__(
        self, due: float, callback: Callable[[], None], done: "Callable[[_FastTimer], None]"
    ) -> None:
        self.due, self._callback, self._done = due, callback, done
        self._handle: asyncio.TimerHandle | None = None

    def schedule(self, seconds: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = asyncio.get_running_loop().call_later(max(0.0, seconds), self._fire)

    def cancel(self) -> None:
        self._done(self)
        if self._handle is not None:
            self._handle.cancel()

    def _fire(self) -> None:
        self._done(self)
        self._callback()
