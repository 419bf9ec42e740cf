"""Finds the owners of an object, their owners, and so on.

Each object is read once. An object that no longer exists has no owners.
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

_MAX_DEPTH = 16


class ObjectRef(NamedTuple):
    """A reference to an object, as in an Event or an ownerReference."""

    group: str
    kind: str
    namespace: str
    name: str
    uid: str


def object_ref(api_version: str, kind: str, namespace: str, name: str, uid: str) -> ObjectRef:
    """Return a reference; `api_version` is group/version."""
    return ObjectRef(api_version.rpartition("/")[0], kind, namespace, name, uid)


class OwnerLookup:
    """Finds owners and caches what it has read."""

    def __init__(self, client: Client, served: Iterable[Resource]) -> None:
        self._client = client
        self._served: dict[tuple[str, str], Resource] = {}
        for each in served:
            self._served.setdefault((each.group, each.kind), each)
        self._known: dict[str, asyncio.Task[tuple[OwnerReference, ...]]] = {}

    @classmethod
    async def of(cls, client: Client) -> OwnerLookup:
        """Create a lookup for the types that the cluster serves now."""
        return cls(client, await list_resources(client))

    async def find_owners(self, one: ObjectRef) -> tuple[ObjectRef, ...]:
        """Return the object and all its direct and indirect owners."""
        found, open_ = {one.uid: one}, [one]
        for _ in range(_MAX_DEPTH):
            answers = await asyncio.gather(*map(self._owner_references, open_))
            above = [
                object_ref(owner.api_version, owner.kind, child.namespace, owner.name, owner.uid)
                for child, owners in zip(open_, answers, strict=True)
                for owner in owners
            ]
            open_ = [each for each in above if each.uid not in found]
            found |= {each.uid: each for each in open_}
            if not open_:
                break
        return tuple(found.values())

    async def _owner_references(self, one: ObjectRef) -> tuple[OwnerReference, ...]:
        task = self._known.get(one.uid)
        if task is None:
            task = self._known[one.uid] = asyncio.create_task(self._read_owner_references(one))
        return await task

    async def _read_owner_references(self, one: ObjectRef) -> tuple[OwnerReference, ...]:
        resource = self._served.get((one.group, one.kind))
        if resource is None or not one.uid:
            return ()
        key = ObjectKey(one.namespace if resource.namespaced else "", one.name)
        try:
            meta = (await self._client.get(resource, key, Object)).metadata
        except ApiError:
            return ()
        return meta.owner_references if meta.uid == one.uid else ()
