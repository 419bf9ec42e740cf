"""Remembers which targets failed, and when to retry.

The status lists them too, but its write may be lost, or not be cached yet when the config is reconciled
again.
"""

from collections.abc import Set
from dataclasses import dataclass

from quintet.apis.meta import ObjectKey
from quintet.controllers.casconfig.decide.plan import Target

_FIRST_RETRY, _LAST_RETRY = 5.0, 600.0


@dataclass(frozen=True, slots=True)
class _Failure:
    generation: int
    times: int
    targets: frozenset[Target]


class FailureHistory:
    """The last failure of each config."""

    def __init__(self) -> None:
        self._last: dict[ObjectKey, _Failure] = {}

    def record(self, config: ObjectKey, generation: int, targets: Set[Target]) -> None:
        """Record a failed attempt."""
        last = self._last.get(config)
        times = last.times + 1 if last is not None and last.generation == generation else 1
        self._last[config] = _Failure(generation, times, frozenset(targets))

    def forget(self, config: ObjectKey) -> None:
        """Drop the failure of a config that succeeded or was deleted."""
        self._last.pop(config, None)

    def targets(self, config: ObjectKey) -> frozenset[Target]:
        """Return the targets that failed."""
        last = self._last.get(config)
        return last.targets if last is not None else frozenset()

    def retry(self, config: ObjectKey) -> float:
        """Return the seconds until the next attempt: no event announces that a refusal is over."""
        times = self._last[config].times
        return min(_FIRST_RETRY * 2.0 ** min(times - 1, 16), _LAST_RETRY)
