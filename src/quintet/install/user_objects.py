"""The objects of users, and which controllers have to run so that they can be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quintet.apis.text import shorten_list
from quintet.components import COMPONENTS
from quintet.controllers.suite.decide.scope import find_scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from quintet.apis.meta import JsonObject
    from quintet.apis.suite import Quintet
    from quintet.controllers.suite.decide.scope import NamespaceInfo
    from quintet.controllers.suite.decide.user_objects import UserObject


def controller_of(each: UserObject) -> str:
    """Return the controller that has to remove the finalizer of an object; empty if it has none of ours."""
    if not each.needs_controller:
        return ""
    return next(name for name, component in COMPONENTS.items() if each.kind in component.kinds)


def without_controller(
    objects: Iterable[UserObject], quintet: Quintet | None, namespaces: Sequence[NamespaceInfo] | None = None
) -> list[UserObject]:
    """Return the objects with a finalizer of a controller that the Quintet does not run for them."""
    return [each for each in objects if controller_of(each) and not _is_served(each, quintet, namespaces)]


def _is_served(each: UserObject, quintet: Quintet | None, namespaces: Sequence[NamespaceInfo] | None) -> bool:
    if quintet is None:
        return False
    scope = find_scope(quintet.spec, namespaces)
    runs = quintet.spec.controllers is None or controller_of(each) in map(str, quintet.spec.controllers)
    return runs and (scope.everywhere or each.key.namespace in scope.namespaces)


def spec_for_deletion(quintet: Quintet | None, objects: Iterable[UserObject]) -> JsonObject:
    """Return the spec with which a Quintet finishes the deletion of objects, in addition to what it does."""
    needed = {controller_of(each) for each in objects}
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
