"""How the Deployment of a part is doing, and where an upgrade goes back to. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from quintet.apis.meta import Condition, Struct, find_condition
from quintet.apis.suite import ComponentStatus, Quintet
from quintet.controllers.suite.decide.installation import Part

_EXCEEDED = "ProgressDeadlineExceeded"


class DeploymentStatus(Struct, frozen=True):
    """What is read of the status of a Deployment."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Rollout:
    """A Deployment as it was seen."""

    generation: int = 0
    image: str = ""
    replicas: int = 0
    """That it asks for."""
    status: DeploymentStatus = field(default_factory=DeploymentStatus)

    @property
    def current(self) -> bool:
        """Whether the status speaks of what is asked for now."""
        return self.generation > 0 and self.status.observed_generation >= self.generation

    @property
    def complete(self) -> bool:
        """Whether every pod is of the current kind and serves, and no old one is left."""
        seen = (self.status.replicas, self.status.updated_replicas, self.status.available_replicas)
        return self.current and seen == (self.replicas,) * 3

    @property
    def failed(self) -> bool:
        """Whether it has stood still for longer than is allowed."""
        progressing = find_condition(self.status.conditions, "Progressing")
        exceeded = progressing is not None and progressing.reason == _EXCEEDED
        return self.current and exceeded and not self.complete

    @property
    def moving(self) -> bool:
        """Whether it is on its way, so that no other may be changed."""
        return not (self.complete or self.failed)

    @property
    def serving(self) -> bool:
        """Whether at least one pod serves."""
        return self.status.available_replicas > 0


Rollouts = Mapping[str, Rollout]
"""Part → its Deployment, if there is one."""


def component(quintet: Quintet, name: str) -> ComponentStatus:
    """What was known of a controller before."""
    found = (each for each in quintet.status.components if each.name == name)
    return next(found, ComponentStatus(name=name))


def fallbacks(quintet: Quintet, parts: Iterable[Part], rollouts: Rollouts) -> dict[str, str]:
    """Controllers whose wanted image did not come up → the image that last did.

    What failed is not tried again until somebody changes the spec, or another image is wanted.
    """
    same = quintet.status.observed_generation == quintet.metadata.generation
    found = {}
    for part in parts:
        rollout = rollouts.get(part.name, Rollout())
        for name in part.controllers:
            known = component(quintet, name)
            now = rollout.failed and rollout.image == part.image
            before = same and known.failed_image == part.image
            if (now or before) and known.image and known.image != part.image:
                found[name] = known.image
    return found
