"""Follows a tree of objects with watches."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from quintet.apis.meta import JsonObject, Resource
from quintet.clock import SystemClock
from quintet.inspect.follow import WatchTarget, follow_changes
from quintet.inspect.relations.tree import read_tree
from quintet.kube.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from quintet.inspect.follow import Change
    from quintet.inspect.kinds import ObjectName
    from quintet.inspect.relations.owned_objects import ObjectTree
    from quintet.inspect.session import Session

PAUSE = 0.5
"""Seconds in which changes are collected before the tree is read again."""
# Children of these types are noticed as soon as they appear, those of other types with the next change.
_USUAL_CHILDREN = (
    Resource("", "v1", "Pod", "pods"),
    Resource("", "v1", "Service", "services"),
    Resource("apps", "v1", "Deployment", "deployments"),
    Resource("batch", "v1", "Job", "jobs"),
)


async def follow_tree(
    session: Session, named: ObjectName, report: Callable[[str], None]
) -> AsyncIterator[ObjectTree]:
    """Yield the tree now and after every change, until its root is deleted."""
    tree = await _read(session, named)
    while tree is not None:
        yield tree
        types = watched_types(tree)
        targets = [WatchTarget(each, tree.root.meta.namespace if each.namespaced else "") for each in types]
        async with contextlib.aclosing(follow_changes(session.client, targets, report)) as changes:
            async for change in changes:
                if not concerns(tree, change):
                    continue
                await SystemClock().sleep(PAUSE)
                tree = await _read(session, named)
                if tree is None or not set(watched_types(tree)) <= set(types):
                    break
                yield tree


def watched_types(tree: ObjectTree) -> list[Resource]:
    """Return the types to watch: those in the tree and the usual types of children."""
    types = dict.fromkeys((*(each.resource for each in tree.root.walk()), *_USUAL_CHILDREN))
    return [each for each in types if each.plural and each.qualified not in tree.forbidden_types]


def concerns(tree: ObjectTree, change: Change) -> bool:
    """Return whether an object of the tree has changed, or a new object belongs to it."""
    versions = {each.meta.uid: each.meta.resource_version for each in tree.root.walk() if each.meta.uid}
    meta = change.body["metadata"]
    if meta["uid"] in versions:
        return change.deleted or meta["resourceVersion"] != versions[meta["uid"]]
    return not change.deleted and any(
        each.get("uid") in versions for each in meta.get("ownerReferences") or ()
    )


async def _read(session: Session, named: ObjectName) -> ObjectTree | None:
    resource = named.kind.resource
    try:
        body = await session.client.get(resource, session.key(resource, named.name), JsonObject)
    except NotFound:
        return None
    return await read_tree(session.client, named, body)
