"""Remembers the targets that another manager keeps reverting, so that the config does not try again.

The ledger of a target counts the rounds. Here is which of them were given up: the last round is not written.
"""

from collections.abc import Set
from dataclasses import replace

from quintet.apis.casconfig import CASConfig, Target, TargetState
from quintet.apis.meta import ObjectKey
from quintet.controllers.casconfig.decide import plan
from quintet.controllers.casconfig.decide.plan import MAX_ROUNDS, Step, kind_name


class Contests:
    """The contested targets of all configs, with the generation for which they are, and the message."""

    def __init__(self) -> None:
        self._given_up: dict[ObjectKey, dict[plan.Target, tuple[int, str]]] = {}

    def forget(self, config: ObjectKey) -> None:
        """Drop a deleted config."""
        self._given_up.pop(config, None)

    def tidy(self, config: ObjectKey, seen: Set[plan.Target]) -> None:
        """Drop all targets but these."""
        known = self._given_up.get(config, {})
        for target in known.keys() - seen:
            del known[target]

    def __len__(self) -> int:
        return sum(map(len, self._given_up.values()))

    def is_known(self, config: CASConfig, step: Step) -> bool:
        """Return whether a target was given up for the current generation."""
        known = self._given_up.get(config.key, {}).get(step.target)
        return known is not None and known[0] == config.metadata.generation

    def remember(self, config: CASConfig, step: Step) -> None:
        """Record that a target is given up until the config is edited, or holds on the target again."""
        self._given_up.setdefault(config.key, {})[step.target] = config.metadata.generation, step.message

    def keep(self, config: CASConfig, step: Step, before: Target | None) -> Step:
        """Return the step, `CONTESTED` and without a patch if the target was given up.

        `before` is the target in the status.
        """
        if not step.retaken:
            self._given_up.get(config.key, {}).pop(step.target, None)
            return step
        if self.is_known(config, step):
            return replace(plan.contested_step(step), message=self._given_up[config.key][step.target][1])
        # Another process gave it up, maybe long ago.
        if before is not None and before.state is TargetState.CONTESTED and step.recorded >= MAX_ROUNDS - 1:
            step = replace(plan.contested_step(step), message=before.message)
            self.remember(config, step)
        return step


def entries(config: CASConfig) -> dict[tuple[str, str, str], Target]:
    """Return the targets of the status by kind, namespace and name."""
    return {(each.kind, each.namespace, each.name): each for each in config.status.targets}


def entry_key(step: Step) -> tuple[str, str, str]:
    """Return the key of a step's target in `entries`."""
    return kind_name(step.resource), step.key.namespace, step.key.name
