"""Objects of users and the finalizers that only their controllers remove."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace

from quintet.apis.meta import ObjectKey, ObjectMeta
from quintet.apis.resources import CustomResource
from quintet.apis.suite import Quintet, QuintetSpec
from quintet.apis.text import shorten_list


@dataclass(frozen=True, slots=True)
class UserObject:
    """An object of a user: its kind and its metadata."""

    kind: CustomResource
    metadata: ObjectMeta

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.metadata.key

    @property
    def deleting(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deleting

    @property
    def deleted_at(self) -> datetime:
        """When its deletion was requested."""
        return datetime.fromisoformat(self.metadata.deletion_timestamp or "")

    @property
    def needs_controller(self) -> bool:
        """Whether only its controller can finish its deletion."""
        return self.kind.finalizer in self.metadata.finalizers

    def __str__(self) -> str:
        return f"{self.kind.resource.kind} {self.key}"


@dataclass(frozen=True, slots=True)
class ObjectsWithoutController:
    """What waits for controllers that the spec does not name."""

    holding: Mapping[str, int] = field(default_factory=dict)
    """How many objects have a finalizer of each controller."""
    deleting: Mapping[str, Sequence[UserObject]] = field(default_factory=dict)
    """Those of them that are being deleted, by controller."""


def group_by_controller(found: Mapping[str, Sequence[UserObject]]) -> ObjectsWithoutController:
    """Return what waits for a controller, from all objects by the name of their controller."""
    held = {name: [each for each in objects if each.needs_controller] for name, objects in found.items()}
    deleting = {name: [each for each in objects if each.deleting] for name, objects in held.items()}
    return ObjectsWithoutController(
        {name: len(objects) for name, objects in held.items() if objects},
        {name: objects for name, objects in deleting.items() if objects},
    )


def finishing_controllers(quintet: Quintet, waiting: ObjectsWithoutController) -> tuple[str, ...]:
    """Return the controllers that were taken out of the spec while they have deletions to finish.

    One that does not run any more is not started again: nobody asked for what else it would do.
    """
    ran = {each.name for each in quintet.status.components}
    return tuple(name for name in waiting.deleting if name in ran)


def with_controllers(spec: QuintetSpec, names: Sequence[str]) -> QuintetSpec:
    """Return a spec that runs these controllers too."""
    if spec.controllers is None or not names:
        return spec
    return replace(spec, controllers=(*spec.controllers, *names))


def describe_deletions(deleting: Mapping[str, Sequence[UserObject]]) -> str:
    """Return which objects wait for which controller."""
    return "; ".join(f"{name}: {shorten_list(map(str, objects))}" for name, objects in deleting.items())
