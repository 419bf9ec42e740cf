"""How often a process repeats requests to the API server: repairs of one child, retries of all objects."""

import math

from quintet.clock import Clock

RETRIES_PER_SECOND = 50.0
RETRY_BURST = 500


class RepairBudget:
    """Limits how often a child is repaired: a burst, then once a second.

    Two writers that undo each other must not do so as fast as the API server allows.
    """

    def __init__(self, clock: Clock, *, burst: int = 30, per_second: float = 1.0) -> None:
        self._clock = clock
        self._burst = burst
        self._rate = per_second
        self._spent: dict[str, tuple[float, float]] = {}

    def wait(self, uid: str) -> float:
        """Return the seconds until the next repair of this child is allowed; 0 allows one now."""
        now = self._clock.monotonic()
        spent, since = self._spent.get(uid, (0.0, now))
        spent = max(0.0, spent - (now - since) * self._rate)
        if spent > self._burst - 1:
            return (spent - self._burst + 1) / self._rate
        self._spent[uid] = (spent + 1, now)
        if len(self._spent) > 10_000:
            self._spent.pop(next(iter(self._spent)))
        return 0.0


class RetryLimit:
    """Limits the retries of all keys of a controller together: a burst, then a constant rate."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_due = -math.inf

    def reserve(self, waiting: int) -> float:
        """Count a retry, and return the seconds until it is allowed, while so many other keys wait."""
        now, each = self._clock.monotonic(), 1 / RETRIES_PER_SECOND
        due = max(self._last_due, now - RETRY_BURST * each) + each
        # A key that keeps changing while it fails reserves more than it uses: only waiting keys count.
        self._last_due = min(due, now + waiting * each)
        return max(0.0, self._last_due - now)
