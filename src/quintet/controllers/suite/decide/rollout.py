"""State of a part's Deployment, and the image to fall back to after a failed upgrade."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from quintet.apis.meta import Condition, Struct, find_condition
from quintet.apis.suite import ComponentStatus, Quintet
from quintet.controllers.suite.decide.installation import Part

_EXCEEDED = "ProgressDeadlineExceeded"


class DeploymentStatus(Struct, frozen=True):
    """The fields that are read of a Deployment's status."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Rollout:
    """An observed Deployment."""

    generation: int = 0
    image: str = ""
    replicas: int = 0
    """Replicas of the Deployment's spec."""
    status: DeploymentStatus = field(default_factory=DeploymentStatus)

    @property
    def current(self) -> bool:
        """Whether the status belongs to the current generation."""
        return self.generation > 0 and self.status.observed_generation >= self.generation

    @property
    def complete(self) -> bool:
        """Whether all pods are updated and available, and no old one is left."""
        seen = (self.status.replicas, self.status.updated_replicas, self.status.available_replicas)
        return self.current and seen == (self.replicas,) * 3

    @property
    def has_failed(self) -> bool:
        """Whether the progress deadline is exceeded."""
        progressing = find_condition(self.status.conditions, "Progressing")
        exceeded = progressing is not None and progressing.reason == _EXCEEDED
        return self.current and exceeded and not self.complete

    @property
    def moving(self) -> bool:
        """Whether the rollout is in progress, so that no other one may start."""
        return not (self.complete or self.has_failed)

    @property
    def serving(self) -> bool:
        """Whether at least one pod is available."""
        return self.status.available_replicas > 0


Rollouts = Mapping[str, Rollout]
"""Observed Deployments by part."""


def component(quintet: Quintet, name: str) -> ComponentStatus:
    """Return the previous status of a controller."""
    found = (each for each in quintet.status.components if each.name == name)
    return next(found, ComponentStatus(name=name))


def fallbacks(quintet: Quintet, parts: Iterable[Part], rollouts: Rollouts) -> dict[str, str]:
    """Return the last working image of each controller whose desired image failed to roll out.

    A failed image is tried again only if the spec changes or another image is desired.
    """
    same = quintet.status.observed_generation == quintet.metadata.generation
    found = {}
    for part in parts:
        rollout = rollouts.get(part.name, Rollout())
        for name in part.controllers:
            known = component(quintet, name)
            now = rollout.has_failed and rollout.image == part.image
            before = same and known.failed_image == part.image
            if (now or before) and known.image and known.image != part.image:
                found[name] = known.image
    return found
