"""What the layers below the runtime need of time; `runtime.clock.SystemClock` has it."""

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that is due some time and may be called off."""

    def cancel(self) -> None:
        """Call it off."""
        ...


class Clock(Protocol):
    """Time, as a dependency."""

    def monotonic(self) -> float:
        """Seconds that never jump."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back after a while."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
