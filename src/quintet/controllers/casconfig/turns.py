"""Lets other tasks of the process run while one computes for long."""

from quintet.clock import Clock

LONGEST_SECONDS = 0.02


class Turns:
    """Ends the turn of a task when it has run for `LONGEST_SECONDS`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.monotonic()

    async def give(self) -> None:
        """Let other tasks run, if this one had its time."""
        if self._clock.monotonic() - self._since >= LONGEST_SECONDS:
            await self._clock.sleep(0)
            self._since = self._clock.monotonic()
