"""The objects of users, and which controllers have to run so that they can be deleted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from quintet.apis.meta import Object, ObjectMeta
from quintet.components import COMPONENTS
from quintet.controllers.suite.decide.scope import find_scope
from quintet.install.doctor.findings import shorten_list
from quintet.kube.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from quintet.apis.meta import JsonObject, ObjectKey
    from quintet.apis.resources import CustomResource
    from quintet.apis.suite import Quintet
    from quintet.controllers.suite.decide.scope import NamespaceInfo
    from quintet.kube.client import Client


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
    def controller(self) -> str:
        """Name of the controller that has to remove its finalizer; empty if it has none of ours."""
        if self.kind.finalizer not in self.metadata.finalizers:
            return ""
        return next(name for name, component in COMPONENTS.items() if self.kind in component.kinds)

    def __str__(self) -> str:
        return f"{self.kind.resource.kind} {self.key}"


async def list_user_objects(client: Client, kinds: Iterable[CustomResource]) -> list[UserObject]:
    """Return all objects of these kinds that the cluster serves."""
    found = []
    for kind in kinds:
        try:
            async for page in client.pages(kind.resource, metadata_only=True):
                found += [
                    UserObject(kind, msgspec.json.decode(item, type=Object).metadata) for item in page.items
                ]
        except NotFound:
            continue  # the cluster does not serve the kind
    return found


def without_controller(
    objects: Iterable[UserObject], quintet: Quintet | None, namespaces: Sequence[NamespaceInfo] | None = None
) -> list[UserObject]:
    """Return the objects with a finalizer of a controller that the Quintet does not run for them."""
    return [each for each in objects if each.controller and not _is_served(each, quintet, namespaces)]


def _is_served(each: UserObject, quintet: Quintet | None, namespaces: Sequence[NamespaceInfo] | None) -> bool:
    if quintet is None:
        return False
    scope = find_scope(quintet.spec, namespaces)
    runs = quintet.spec.controllers is None or each.controller in map(str, quintet.spec.controllers)
    return runs and (scope.everywhere or each.key.namespace in scope.namespaces)


def spec_for_deletion(quintet: Quintet | None, objects: Iterable[UserObject]) -> JsonObject:
    """Return the spec with which a Quintet finishes the deletion of objects, in addition to what it does."""
    needed = {each.controller for each in objects}
    if quintet is None:
        return {"controllers": sorted(needed), "replicas": 1}
    running = quintet.spec.controllers
    names = None if running is None else sorted(needed.union(map(str, running)))
    return {"controllers": names, "namespaces": None, "namespaceSelector": None}


def without_finalizer(each: UserObject) -> JsonObject:
    """Return the merge patch that removes our finalizer; it fails if the object has changed."""
    others = [name for name in each.metadata.finalizers if name != each.kind.finalizer]
    version = each.metadata.resource_version
    return {"metadata": {"uid": each.metadata.uid, "resourceVersion": version, "finalizers": others}}


def describe_remaining(left: Sequence[UserObject], timeout: float) -> tuple[str, str]:
    """Return the message and the next step for objects whose deletion is not finished in time."""
    held = [f"{each} (finalizers {', '.join(each.metadata.finalizers) or 'none'})" for each in left]
    first = left[0]
    kind, key = first.kind.resource.kind.lower(), first.key
    return (
        f"not deleted within {timeout:g} s: {shorten_list(held)}",
        f"`quintet explain {kind} {key.name} -n {key.namespace}` shows the cause. Repeat the command to "
        "continue; with --force it does not wait for controllers, and leaves behind what they clean up",
    )
