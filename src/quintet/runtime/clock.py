"""Time as a dependency. Everything in the runtime that waits or dates things takes a `Clock`.

The only module that may touch the system's time (a lint rule sees to it); tests hand in
a virtual clock and advance it.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Timer(Protocol):
    """A callback that is due some time and may be called off."""

    def cancel(self) -> None:
        """Call it off."""
        ...


class Clock(Protocol):
    """What the runtime needs of time."""

    def monotonic(self) -> float:
        """Seconds that never jump; also counts while the process or the machine is suspended."""
        ...

    def now(self) -> datetime:
        """The date and time, in UTC."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back after a while."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """Real time."""

    # Unlike CLOCK_MONOTONIC this one goes on while a laptop sleeps, and so do leases.
    _source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def monotonic(self) -> float:
        """Seconds since boot."""
        return time.clock_gettime(self._source)

    def now(self) -> datetime:
        """The date and time, in UTC."""
        return datetime.now(UTC)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """By the running event loop."""
        return asyncio.get_running_loop().call_later(seconds, callback)

    async def sleep(self, seconds: float) -> None:
        """By the running event loop."""
        await asyncio.sleep(seconds)


def timestamp(moment: datetime) -> str:
    """As `metav1.Time`: whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime) -> str:
    """As `metav1.MicroTime`."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
