"""Follows a tree of objects, or all details of an object, with watches."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeVar

from quintet.apis.meta import JsonObject, Resource
from quintet.clock import SystemClock
from quintet.inspect.explanation_reader import ObjectDetails, read_details
from quintet.inspect.follow import WatchTarget, follow_changes
from quintet.inspect.relations.tree import read_tree
from quintet.kube.errors import NotFound
from quintet.runtime.events import EVENTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from quintet.inspect.follow import Change
    from quintet.inspect.kinds import ObjectName
    from quintet.inspect.relations.owned_objects import ObjectTree
    from quintet.inspect.session import Session
    from quintet.kube.client import Client

T = TypeVar("T")

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

    async def read() -> ObjectTree | None:
        resource = named.kind.resource
        try:
            body = await session.client.get(resource, session.key(resource, named.name), JsonObject)
        except NotFound:
            return None
        return await read_tree(session.client, named, body)

    async for tree in _follow(session.client, read, _watch_targets, concerns, report):
        yield tree


async def follow_details(
    session: Session, named: ObjectName, report: Callable[[str], None]
) -> AsyncIterator[ObjectDetails]:
    """Yield all details of an object now and after every change and Event, until it is deleted."""

    async def read() -> ObjectDetails | None:
        try:
            return await read_details(session, named)
        except NotFound:
            return None

    def targets(found: ObjectDetails) -> list[WatchTarget]:
        namespace = found.tree.root.meta.namespace
        events = [WatchTarget(EVENTS, namespace)] if found.can_list_events else []
        return [*_watch_targets(found.tree), *events]

    async for details in _follow(session.client, read, targets, concerns_details, report):
        yield details


async def _follow(
    client: Client,
    read: Callable[[], Awaitable[T | None]],
    targets_of: Callable[[T], Sequence[WatchTarget]],
    concerns: Callable[[T, Change], bool],
    report: Callable[[str], None],
) -> AsyncIterator[T]:
    """Yield what `read` returns now and after every change that concerns it, until it returns None."""
    found = await read()
    while found is not None:
        yield found
        targets = targets_of(found)
        async with contextlib.aclosing(follow_changes(client, targets, report)) as changes:
            async for change in changes:
                if not concerns(found, change):
                    continue
                await SystemClock().sleep(PAUSE)
                found = await read()
                if found is None or not set(targets_of(found)) <= set(targets):
                    break
                yield found


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


def concerns_details(details: ObjectDetails, change: Change) -> bool:
    """Return whether the tree has changed, or there is news in the Events about it."""
    if change.target.resource != EVENTS:
        return concerns(details.tree, change)
    meta, about = change.body["metadata"], (change.body.get("regarding") or {}).get("uid")
    known = any(
        (each.id, each.resource_version) == (meta["uid"], meta["resourceVersion"]) for each in details.events
    )
    return (
        not change.deleted and not known and any(each.meta.uid == about for each in details.tree.root.walk())
    )


def _watch_targets(tree: ObjectTree) -> list[WatchTarget]:
    namespace = tree.root.meta.namespace
    return [WatchTarget(each, namespace if each.namespaced else "") for each in watched_types(tree)]
