"""Writes the status of objects, only when it changed."""

from typing import Any

import msgspec

from quintet.apis.meta import Object, Resource
from quintet.kube.client import Client
from quintet.kube.errors import NotFound
from quintet.runtime.cache import Store
from quintet.runtime.ownwrites import OwnWrites
from quintet.runtime.reconcile import ObjectDeleted


class StatusWriter:
    """Writes the status of objects of one type."""

    def __init__(self, client: Client, resource: Resource, store: Store[Any], writes: OwnWrites) -> None:
        self._client = client
        self._resource = resource
        self._store = store
        self._writes = writes

    async def write(
        self, obj: Object, old: msgspec.Struct | None, new: msgspec.Struct, *, lock: str = ""
    ) -> str | None:
        """Replace the status `old` of `obj` by `new`; return the new resourceVersion, None if not written.

        With `lock`, a resourceVersion, the write fails if the object has changed since, or was deleted.
        """
        if old == new:
            return None
        metadata = {"uid": obj.metadata.uid, "resourceVersion": lock} if lock else {"uid": obj.metadata.uid}
        status = merge_patch(msgspec.to_builtins(old), msgspec.to_builtins(new))
        body = {"metadata": metadata, "status": status}
        try:
            response = await self._client.patch(self._resource, obj.key, body, Object, subresource="status")
        except NotFound:
            if lock:
                raise ObjectDeleted(f"{self._resource.kind} {obj.key} was deleted") from None
            return None
        self._writes.record(obj.key, self._store, response.version)
        return response.metadata.resource_version


def merge_patch(before: Any, after: Any) -> Any:
    """Return the JSON merge patch that turns `before` into `after`; removed fields become null."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    gone = {name: None for name in before if name not in after}
    return gone | {name: merge_patch(before.get(name), value) for name, value in after.items()}
