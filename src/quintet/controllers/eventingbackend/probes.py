"""Decides when a backend is probed again: with backoff after failures, at intervals while it is ready.

Backends are reconciled at every change of a pod, but not probed each time. A result is valid until it is due,
until its inputs change, or until `forget`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from quintet.apis.meta import ObjectKey
from quintet.clock import Clock
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult


@dataclass(frozen=True, slots=True)
class Timing:
    """Time limits and intervals, in seconds."""

    while_ready: float = 60.0
    """Interval of probes that correct a changed stream and notice a new Secret."""
    first_retry: float = 1.0
    last_retry: float = 60.0
    while_moving: float = 1.0
    """Interval of reconciliations during a migration."""
    longest_drain: float = 600.0
    """Maximum wait for the old stream to drain; then its events stay there."""
    publisher_end: float = 160.0
    """How long a publisher that was replaced may still store events: twice the grace period of its pod."""


@dataclass(frozen=True, slots=True)
class _Known:
    question: object
    result: ProbeResult
    due: float
    failures: int


class Probes:
    """The last probe result of each backend."""

    def __init__(self, clock: Clock, timing: Timing) -> None:
        self._clock = clock
        self._timing = timing
        self._known: dict[ObjectKey, _Known] = {}

    async def probe(
        self, key: ObjectKey, question: object, probe: Callable[[], Awaitable[ProbeResult]]
    ) -> ProbeResult:
        """Return the valid result, or probe. `question` holds all inputs of the probe."""
        known = self._known.get(key)
        asked_before = known is not None and known.question == question
        if known is not None and asked_before and self._clock.monotonic() < known.due:
            return known.result
        # Dropped first: a connection lost during the probe must invalidate its result.
        token = self._known[key] = _Known(question, ProbeResult(), 0.0, known.failures if known else 0)
        result = await probe()
        failures = 0 if result.ready else (token.failures if asked_before else 0) + 1
        if self._known.get(key) is token:
            due = self._clock.monotonic() + self._pause(failures)
            self._known[key] = _Known(question, result, due, failures)
        return result

    def due_in(self, key: ObjectKey) -> float:
        """Return the seconds until the next probe."""
        known = self._known.get(key)
        return self._timing.first_retry if known is None else max(known.due - self._clock.monotonic(), 0.05)

    def forget(self, key: ObjectKey) -> None:
        """Probe at the next reconciliation."""
        self._known.pop(key, None)

    def _pause(self, failures: int) -> float:
        if failures == 0:
            return self._timing.while_ready
        return min(self._timing.last_retry, self._timing.first_retry * 2.0 ** min(failures - 1, 16))
