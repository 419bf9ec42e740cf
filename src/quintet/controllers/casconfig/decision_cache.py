"""Remembers which objects are as a config wants them, so that only what has changed is looked at again.

Used by `controller`. A config that watches a thousand objects hears of every change to one of them: without
this it would decide on all of them each time. What is remembered holds for one state of the config and of
its sources, and for one version of an object; what is to be done to an object is never remembered.
"""

from collections.abc import Set

from quintet.apis.casconfig import CASConfig
from quintet.apis.casconfig.places import Path
from quintet.apis.meta import ObjectKey
from quintet.controllers.casconfig.decide import plan
from quintet.controllers.casconfig.decide.plan import FoundObject, ResolvedConfig, Step, Target
from quintet.controllers.casconfig.watches import CachedObject, WatchScope


class ConfigDecisions:
    """What is known for one state of one config."""

    def __init__(self, generation: int, wish: ResolvedConfig) -> None:
        self.generation = generation
        self.wish = wish
        self._known: dict[Target, tuple[int, str, bool, Step | None]] = {}

    def step(self, place: WatchScope, pod: Path | None, seen: CachedObject) -> Step | None:
        """What is to be done to an object; None: nothing, because the config has nothing to do with it."""
        target = place.resource, seen.key
        mark = seen.version, seen.uid, place.whole
        known = self._known.get(target)
        if known is not None and known[:3] == mark:
            return known[3]
        step = plan.decide_step(self.wish, FoundObject(place.resource, pod, seen.decode()))
        if step is None or not (step.patch or step.retaken):
            self._known[target] = (*mark, step)
        return step

    def keep(self, seen: Set[Target]) -> None:
        """Objects that are gone are never asked for again: what is known of others than these goes too."""
        for target in self._known.keys() - seen:
            del self._known[target]

    def __len__(self) -> int:
        return len(self._known)


class DecisionCache:
    """What is known for all configs."""

    def __init__(self) -> None:
        self._decisions: dict[ObjectKey, ConfigDecisions] = {}

    def decisions_for(self, config: CASConfig, wish: ResolvedConfig) -> ConfigDecisions:
        """What is known for a config as it is now."""
        known = self._decisions.get(config.key)
        generation = config.metadata.generation
        if known is None or known.generation != generation or known.wish != wish:
            known = self._decisions[config.key] = ConfigDecisions(generation, wish)
        return known

    def forget(self, config: ObjectKey) -> None:
        """A config is gone."""
        self._decisions.pop(config, None)
