"""Whom an object belongs to: its owners, theirs, and so on up.

Called by `events` and `logs`, which meet objects one by one as they come and want to know whether they
are of a family. Each object is asked for once; what is gone belongs to nobody any more.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from quintet.apis.meta import Object, ObjectKey, OwnerReference, Resource
from quintet.kube.discovery import list_resources
from quintet.kube.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quintet.kube.client import Client

_HIGHEST = 16


class Being(NamedTuple):
    """An object, as an Event or an ownerReference names it."""

    group: str
    kind: str
    namespace: str
    name: str
    uid: str


def being(api_version: str, kind: str, namespace: str, name: str, uid: str) -> Being:
    """An object, as an Event or an ownerReference names it."""
    return Being(api_version.rpartition("/")[0], kind, namespace, name, uid)


class Ancestry:
    """Remembers what it has found."""

    def __init__(self, client: Client, served: Iterable[Resource]) -> None:
        self._client = client
        self._served: dict[tuple[str, str], Resource] = {}
        for each in served:
            self._served.setdefault((each.group, each.kind), each)
        self._known: dict[str, asyncio.Task[tuple[OwnerReference, ...]]] = {}

    @classmethod
    async def of(cls, client: Client) -> Ancestry:
        """For what a cluster serves now."""
        return cls(client, await list_resources(client))

    async def line(self, one: Being) -> tuple[Being, ...]:
        """The object and all whom it belongs to."""
        found, open_ = {one.uid: one}, [one]
        for _ in range(_HIGHEST):
            answers = await asyncio.gather(*map(self._owners, open_))
            above = [
                being(owner.api_version, owner.kind, child.namespace, owner.name, owner.uid)
                for child, owners in zip(open_, answers, strict=True)
                for owner in owners
            ]
            open_ = [each for each in above if each.uid not in found]
            found |= {each.uid: each for each in open_}
            if not open_:
                break
        return tuple(found.values())

    async def _owners(self, one: Being) -> tuple[OwnerReference, ...]:
        task = self._known.get(one.uid)
        if task is None:
            task = self._known[one.uid] = asyncio.create_task(self._ask(one))
        return await task

    async def _ask(self, one: Being) -> tuple[OwnerReference, ...]:
        resource = self._served.get((one.group, one.kind))
        if resource is None or not one.uid:
            return ()
        key = ObjectKey(one.namespace if resource.namespaced else "", one.name)
        try:
            meta = (await self._client.get(resource, key, Object)).metadata
        except ApiError:
            return ()
        return meta.owner_references if meta.uid == one.uid else ()
