"""Counts how often another manager reverts a target, and stops setting it at a limit.

The count is kept in the status and survives restarts; the time of the last round is kept here. A round long
after the previous one starts a new count.
"""

from dataclasses import replace

from quintet.apis.casconfig import CASConfig, Target, TargetState
from quintet.apis.meta import ObjectKey
from quintet.clock import Clock
from quintet.controllers.casconfig.decide import plan
from quintet.controllers.casconfig.decide.plan import MAX_ROUNDS, Step, kind_name

RESET_SECONDS = 600.0


class Contests:
    """The contested rounds of all configs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started = clock.monotonic()
        self._last: dict[ObjectKey, dict[plan.Target, float]] = {}

    def forget(self, config: ObjectKey) -> None:
        """Reset the count of a deleted or changed config."""
        self._last.pop(config, None)

    def tidy(self, config: ObjectKey) -> None:
        """Drop rounds that are too old to count."""
        now, last = self._clock.monotonic(), self._last.get(config, {})
        for target in [target for target, at in last.items() if now - at > RESET_SECONDS]:
            del last[target]

    def __len__(self) -> int:
        return sum(map(len, self._last.values()))

    def apply_limit(self, config: CASConfig, step: Step, before: Target | None) -> Step:
        """Return the step with its rounds; `CONTESTED` and without a patch if there are too many."""
        rounds = before.rounds if before is not None and _current(config) else 0
        if not step.retaken:
            return step if step.rounds == rounds else replace(step, rounds=rounds)
        if before is not None and before.state is TargetState.CONTESTED and _current(config):
            return replace(plan.contested_step(step, rounds), message=before.message)
        now, last = self._clock.monotonic(), self._last.setdefault(config.key, {})
        # Rounds that another process counted happened before this process started.
        if now - last.get(step.target, self._started) > RESET_SECONDS:
            rounds = 0
        last[step.target] = now
        rounds += 1
        return plan.contested_step(step, rounds) if rounds >= MAX_ROUNDS else replace(step, rounds=rounds)


def entries(config: CASConfig) -> dict[tuple[str, str, str], Target]:
    """Return the targets of the status by kind, namespace and name."""
    return {(each.kind, each.namespace, each.name): each for each in config.status.targets}


def entry_key(step: Step) -> tuple[str, str, str]:
    """Return the key of a step's target in `entries`."""
    return kind_name(step.resource), step.key.namespace, step.key.name


def _current(config: CASConfig) -> bool:
    return config.status.observed_generation == config.metadata.generation
