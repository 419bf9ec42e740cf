"""When a backend is looked at again: soon after trouble and ever later, now and then while all is well.

A reconciliation happens at every change of a pod; the server is not asked each time. What was found
holds until it is due, until something else is asked, or until `forget` (a lost connection) says so.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from quintet.apis.meta import ObjectKey
from quintet.clock import Clock
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds."""

    while_ready: float = 60.0
    """After this a stream that somebody edited is put back, and a new Secret is noticed."""
    first_retry: float = 1.0
    last_retry: float = 60.0
    while_moving: float = 1.0
    """Between two looks at a backend that moves to another server or stream."""
    longest_wait: float = 120.0
    """For Subscriptions to listen there; then publishers go without them."""
    longest_drain: float = 600.0
    """For what is left in the old stream to be delivered; then it stays there."""


@dataclass(frozen=True, slots=True)
class _Known:
    question: object
    finding: ProbeResult
    due: float
    failures: int


class Probes:
    """What was found about each backend, and until when that holds."""

    def __init__(self, clock: Clock, timing: Timing) -> None:
        self._clock = clock
        self._timing = timing
        self._known: dict[ObjectKey, _Known] = {}

    async def look(
        self, key: ObjectKey, question: object, probe: Callable[[], Awaitable[ProbeResult]]
    ) -> ProbeResult:
        """What is known, or what the probe finds. The question says what the answer depends on."""
        known = self._known.get(key)
        asked_before = known is not None and known.question == question
        if known is not None and asked_before and self._clock.monotonic() < known.due:
            return known.finding
        # Taken away first: what is lost while we look must not be covered by what we find.
        token = self._known[key] = _Known(question, ProbeResult(), 0.0, known.failures if known else 0)
        finding = await probe()
        failures = 0 if finding.ready else (token.failures if asked_before else 0) + 1
        if self._known.get(key) is token:
            due = self._clock.monotonic() + self._pause(failures)
            self._known[key] = _Known(question, finding, due, failures)
        return finding

    def due_in(self, key: ObjectKey) -> float:
        """Seconds until the next look is due."""
        known = self._known.get(key)
        return self._timing.first_retry if known is None else max(known.due - self._clock.monotonic(), 0.05)

    def forget(self, key: ObjectKey) -> None:
        """Look again at the next opportunity."""
        self._known.pop(key, None)

    def _pause(self, failures: int) -> float:
        if failures == 0:
            return self._timing.while_ready
        return min(self._timing.last_retry, self._timing.first_retry * 2.0 ** min(failures - 1, 16))
