"""Caches decisions, so that a change of one object does not decide on all objects of a config again.

An entry is valid for one generation of the config, its resolved values and one version of the object. Steps
that change an object are never cached.
"""

from collections.abc import Set

from quintet.apis.casconfig import CASConfig
from quintet.apis.casconfig.places import Path
from quintet.apis.meta import ObjectKey
from quintet.controllers.casconfig.decide import plan
from quintet.controllers.casconfig.decide.plan import FoundObject, ResolvedConfig, Step, Target
from quintet.controllers.casconfig.watches import CachedObject, WatchScope


class ConfigDecisions:
    """Decisions for one state of one config."""

    def __init__(self, generation: int, resolved: ResolvedConfig) -> None:
        self.generation = generation
        self.resolved = resolved
        self._known: dict[Target, tuple[str, str, bool, Step | None]] = {}

    def step(self, scope: WatchScope, pod: Path | None, seen: CachedObject) -> Step | None:
        """Return the step for an object, or None if the config does not concern it."""
        target = scope.resource, seen.key
        mark = seen.resource_version, seen.uid, scope.whole
        known = self._known.get(target)
        if known is not None and known[:3] == mark:
            return known[3]
        step = plan.decide_step(self.resolved, FoundObject(scope.resource, pod, seen.decode()))
        if step is None or not (step.patch or step.retaken):
            self._known[target] = (*mark, step)
        return step

    def keep(self, seen: Set[Target]) -> None:
        """Drop the decisions on all objects but these."""
        for target in self._known.keys() - seen:
            del self._known[target]

    def __len__(self) -> int:
        return len(self._known)


class DecisionCache:
    """Decisions for all configs."""

    def __init__(self) -> None:
        self._decisions: dict[ObjectKey, ConfigDecisions] = {}

    def decisions_for(self, config: CASConfig, resolved: ResolvedConfig) -> ConfigDecisions:
        """Return the decisions that are valid for a config now."""
        known = self._decisions.get(config.key)
        generation = config.metadata.generation
        if known is None or known.generation != generation or known.resolved != resolved:
            known = self._decisions[config.key] = ConfigDecisions(generation, resolved)
        known.resolved = resolved
        return known

    def forget(self, config: ObjectKey) -> None:
        """Drop the decisions of a deleted config."""
        self._decisions.pop(config, None)
