"""Which targets refused a config the last time, and when it is tried again.

Used by `controller`. The status names them too, for those who come after this process; but an answer to
that write may be lost, and the cache may not show it yet when the config is looked at again.
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
    """The last failure of each config that has one."""

    def __init__(self) -> None:
        self._last: dict[ObjectKey, _Failure] = {}

    def record(self, config: ObjectKey, generation: int, targets: Set[Target]) -> None:
        """It was tried in vain."""
        last = self._last.get(config)
        times = last.times + 1 if last is not None and last.generation == generation else 1
        self._last[config] = _Failure(generation, times, frozenset(targets))

    def forget(self, config: ObjectKey) -> None:
        """It succeeded, or is gone."""
        self._last.pop(config, None)

    def targets(self, config: ObjectKey) -> frozenset[Target]:
        """What refused it."""
        last = self._last.get(config)
        return last.targets if last is not None else frozenset()

    def retry(self, config: ObjectKey) -> float:
        """Seconds until it is tried again: nobody tells us when a refusal would be none any more."""
        times = self._last[config].times
        return min(_FIRST_RETRY * 2.0 ** min(times - 1, 16), _LAST_RETRY)
