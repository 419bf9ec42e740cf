"""Keeps CRDs up to date, and refuses changes that could break objects.

CRDs have no owner: they remain when the Quintet is deleted, and users keep their objects. The cache tells
whether a CRD is up to date; before a change it is read from the API server.
"""

from typing import Any

from quintet.apis.meta import Condition, JsonObject, Object, ObjectKey, Struct, find_condition
from quintet.controllers.suite.decide.installation import CRDS, key_of
from quintet.controllers.suite.decide.safety import unsafe_changes
from quintet.kube.client import Client
from quintet.kube.errors import NotFound
from quintet.runtime.cache import Store
from quintet.runtime.ownership import APPLIED, Child, View, digest, is_unchanged
from quintet.runtime.ownwrites import OwnWrites

_MARK = "definition"


class CrdStatus(Struct, frozen=True):
    """The fields that are read of a CRD's status."""

    conditions: tuple[Condition, ...] | None = ()
    """Null in a CRD that was just created."""


class CrdView(View, frozen=True):
    """The fields that are read of a CRD."""

    status: CrdStatus = CrdStatus()


def is_established(view: CrdView) -> bool:
    """Return whether the API server serves the CRD."""
    found = find_condition(view.status.conditions or (), "Established")
    return found is not None and found.status == "True"


class UnsafeCrdChange(Exception):
    """A CRD change that could break existing objects."""

    def __init__(self, name: str, changes: list[str]) -> None:
        shown = "; ".join(changes[:5]) + (f"; and {len(changes) - 5} more" if len(changes) > 5 else "")
        super().__init__(
            f"the CRD {name} is not updated, because objects could break: {shown}. "
            "Go back to the previous version, or apply the CRD yourself once your objects are valid for it"
        )


class CrdWriter:
    """Applies the CRDs of an installation."""

    def __init__(self, client: Client, store: Store[Child[bool]], writes: OwnWrites) -> None:
        self._client = client
        self._store = store
        self._writes = writes

    async def ensure(self, owner: ObjectKey, body: JsonObject) -> bool:
        """Apply a CRD if it differs; return True once the API server serves it."""
        wanted = _with_digest(body)
        child = self._store.get(key_of(wanted))
        if child is not None and is_unchanged(child, wanted):
            return child.state
        try:
            live: JsonObject = await self._client.get(CRDS, key_of(wanted), dict[str, Any])
        except NotFound:
            live = {}
        if live and (changes := unsafe_changes(live, wanted)):
            raise UnsafeCrdChange(key_of(wanted).name, changes)
        answer = await self._client.apply(CRDS, key_of(wanted), wanted, Object)
        self._writes.record(owner, self._store, answer.version)
        return False  # the watch reports when it is served


def _with_digest(body: JsonObject) -> JsonObject:
    metadata = body["metadata"]
    annotations = {**metadata.get("annotations", {}), APPLIED: f"{_MARK}/{digest(body)}"}
    return {**body, "metadata": {**metadata, "annotations": annotations}}
