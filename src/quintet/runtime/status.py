"""The only writer of status: once per reconciliation, and only when something changed."""

from typing import Any

import msgspec

from quintet.apis.meta import Object, Resource
from quintet.kube.client import Client
from quintet.kube.errors import NotFound
from quintet.runtime.cache import Store
from quintet.runtime.ownwrites import OwnWrites


class StatusWriter:
    """Writes the status of one type of objects."""

    def __init__(self, client: Client, resource: Resource, store: Store[Any], writes: OwnWrites) -> None:
        self._client = client
        self._resource = resource
        self._store = store
        self._writes = writes

    async def write(self, obj: Object, old: msgspec.Struct | None, new: msgspec.Struct) -> bool:
        """Replace the status `old` of `obj` by `new`; False if they are the same."""
        if old == new:
            return False
        status = merge_patch(msgspec.to_builtins(old), msgspec.to_builtins(new))
        body = {"metadata": {"uid": obj.metadata.uid}, "status": status}
        try:
            answer = await self._client.patch(self._resource, obj.key, body, Object, subresource="status")
        except NotFound:
            return False  # deleted in the meantime: nobody is left to read it
        self._writes.record(obj.key, self._store, answer.version)
        return True


def merge_patch(before: Any, after: Any) -> Any:
    """What makes `after` of `before`: such a patch keeps what it does not name, so what went away is null."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    gone = {name: None for name in before if name not in after}
    return gone | {name: merge_patch(before.get(name), value) for name, value in after.items()}
