"""Keeps CRDs up to date, and refuses changes that could break objects.

A CRD that accepts more than ours, as a later version left it, stays: our objects are valid for it.

CRDs have no owner: they remain when the Quintet is deleted, and users keep their objects. The cache tells
whether a CRD is up to date; before a change it is read from the API server.
"""

from typing import Any

from quintet.apis.meta import Condition, JsonObject, Object, ObjectKey, Struct, find_condition
from quintet.controllers.suite.decide.installation import CRDS, key_of
from quintet.controllers.suite.decide.safety import describe_unused, is_wider, unsafe_changes
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


def is_served(live: JsonObject) -> bool:
    """Return whether the API server serves a CRD, from the whole object."""
    # The conditions of a new CRD are null.
    conditions = live.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


class UnsafeCrdChange(Exception):
    """A CRD change that could break existing objects."""

    def __init__(self, name: str, changes: list[str]) -> None:
        shown = "; ".join(changes[:5]) + (f"; and {len(changes) - 5} more" if len(changes) > 5 else "")
        super().__init__(
            f"the CRD {name} is not updated, because objects could break: {shown}. "
            "`quintet uninstall` keeps the objects: then change the CRD so that it can be replaced, and "
            "install again"
        )


class CrdWriter:
    """Applies the CRDs of an installation."""

    def __init__(self, client: Client, store: Store[Child[bool]], writes: OwnWrites) -> None:
        self._client = client
        self._store = store
        self._writes = writes
        self._wider: dict[str, tuple[int, str]] = {}

    @property
    def wider(self) -> tuple[str, ...]:
        """The CRDs that stay because they accept more than ours, with what this version ignores."""
        return tuple(text for _, (_, text) in sorted(self._wider.items()))

    async def ensure(self, owner: ObjectKey, body: JsonObject) -> bool:
        """Apply a CRD if it differs; return True once the API server serves it."""
        name = key_of(body).name
        wanted = _with_digest(body)
        child = self._store.get(key_of(wanted))
        if child is not None and is_unchanged(child, wanted):
            self._wider.pop(name, None)
            return child.state
        if child is not None and self._wider.get(name, (0, ""))[0] == child.version:
            return child.state
        self._wider.pop(name, None)
        try:
            live: JsonObject = await self._client.get(CRDS, key_of(wanted), dict[str, Any])
        except NotFound:
            live = {}
        if live and (changes := unsafe_changes(live, wanted)):
            if not is_wider(live, wanted):
                raise UnsafeCrdChange(name, changes)
            self._wider[name] = int(live["metadata"]["resourceVersion"]), describe_unused(name, changes)
            return is_served(live)
        answer = await self._client.apply(CRDS, key_of(wanted), wanted, Object)
        self._writes.record(owner, self._store, answer.version)
        return False  # the watch reports when it is served


def _with_digest(body: JsonObject) -> JsonObject:
    metadata = body["metadata"]
    annotations = {**metadata.get("annotations", {}), APPLIED: f"{_MARK}/{digest(body)}"}
    return {**body, "metadata": {**metadata, "annotations": annotations}}
