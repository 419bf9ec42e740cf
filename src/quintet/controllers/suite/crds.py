"""Keeps the definitions of our kinds up to date, and refuses a change that could harm objects.

Called by `controller` before anything else. Definitions have no owner: they stay when the Quintet goes,
and with them every object of a user. What a cache says is enough to know that nothing has to be done;
before a change the definition is read from the server.
"""

from typing import Any

from quintet.apis.meta import Condition, JsonObject, Object, ObjectKey, Struct, find_condition
from quintet.controllers.suite.decide.installation import CRDS, key_of
from quintet.controllers.suite.decide.safety import unsafe_changes
from quintet.kube.client import Client
from quintet.kube.errors import NotFound
from quintet.runtime.cache import Store
from quintet.runtime.ownership import APPLIED, Child, View, digest, untouched
from quintet.runtime.ownwrites import OwnWrites

_MARK = "definition"


class CrdStatus(Struct, frozen=True):
    """What is read of the status of a definition."""

    conditions: tuple[Condition, ...] | None = ()
    """Null in a definition that was made just now."""


class CrdView(View, frozen=True):
    """What is read of a definition."""

    status: CrdStatus = CrdStatus()


def is_established(view: CrdView) -> bool:
    """Whether the API server serves the kind."""
    found = find_condition(view.status.conditions or (), "Established")
    return found is not None and found.status == "True"


class UnsafeCrdChange(Exception):
    """A change that could harm objects that are there."""

    def __init__(self, name: str, changes: list[str]) -> None:
        shown = "; ".join(changes[:5]) + (f"; and {len(changes) - 5} more" if len(changes) > 5 else "")
        super().__init__(
            f"the definition of {name} is not changed, because objects could break: {shown}. "
            "Go back to the version before, or apply the definition by hand once your objects fit it"
        )


class CrdWriter:
    """The definitions of one installation, on one API server."""

    def __init__(self, client: Client, store: Store[Child[bool]], writes: OwnWrites) -> None:
        self._client = client
        self._store = store
        self._writes = writes

    async def ensure(self, owner: ObjectKey, body: JsonObject) -> bool:
        """Make a definition be as wanted; True once the API server serves it."""
        wanted = _with_digest(body)
        child = self._store.get(key_of(wanted))
        if child is not None and untouched(child, wanted):
            return child.state
        try:
            live: JsonObject = await self._client.get(CRDS, key_of(wanted), dict[str, Any])
        except NotFound:
            live = {}
        if live and (changes := unsafe_changes(live, wanted)):
            raise UnsafeCrdChange(key_of(wanted).name, changes)
        answer = await self._client.apply(CRDS, key_of(wanted), wanted, Object)
        self._writes.record(owner, self._store, answer.version)
        return False  # its own change tells us when it is served


def _with_digest(body: JsonObject) -> JsonObject:
    metadata = body["metadata"]
    annotations = {**metadata.get("annotations", {}), APPLIED: f"{_MARK}/{digest(body)}"}
    return {**body, "metadata": {**metadata, "annotations": annotations}}
