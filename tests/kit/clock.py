"""Time that stands still until a test moves it."""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class _Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualClock:
    """A `runtime.clock.Clock` moved by hand; everything due on the way happens in order."""

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
        """Let time pass, and everybody act on it."""
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
    """Let every task that can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)
