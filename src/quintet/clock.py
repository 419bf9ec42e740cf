"""Time as a dependency: whatever waits or writes a timestamp takes a `Clock`.

This is the only module that reads the system's time (ruff enforces it). Tests pass a virtual clock and
advance it.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Timer(Protocol):
    """A scheduled callback that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the callback; does nothing if it has run."""
        ...


class Clock(Protocol):
    """Reads the time, sleeps and schedules callbacks."""

    def monotonic(self) -> float:
        """Return seconds that never go back, and that also pass while the process or machine is suspended."""
        ...

    def now(self) -> datetime:
        """Return the current time in UTC."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Schedule a callback."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep for a number of seconds."""
        ...


class SystemClock:
    """The real clock; timers run on the current event loop."""

    # Unlike CLOCK_MONOTONIC, this clock also advances while a laptop sleeps, and so do leases.
    _source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def monotonic(self) -> float:
        """Return seconds since boot."""
        return time.clock_gettime(self._source)

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Schedule a callback on the event loop."""
        return asyncio.get_running_loop().call_later(seconds, callback)

    async def sleep(self, seconds: float) -> None:
        """Sleep on the event loop."""
        await asyncio.sleep(seconds)


def timestamp(moment: datetime) -> str:
    """Format a time as Kubernetes' `metav1.Time`: whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime) -> str:
    """Format a time as Kubernetes' `metav1.MicroTime`."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
