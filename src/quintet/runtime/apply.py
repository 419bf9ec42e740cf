"""Writes children: brings them to the desired state, and sends nothing if nothing differs.

Fields of ours are restored, fields of others stay, and an object that is not ours is never changed, not
even if it appears while the controller writes.
"""

from typing import Any

from msgspec import Raw

from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.clock import Clock
from quintet.kube.client import JSON, Client
from quintet.kube.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound, Status
from quintet.kube.rates import RepairBudget
from quintet.runtime.cache import Store
from quintet.runtime.clashes import find_clash
from quintet.runtime.drift import ChangedField, describe_changes, find_changed_fields
from quintet.runtime.events import NORMAL, Recorder
from quintet.runtime.ownership import APPLIED, Child, View, belongs_to, is_unchanged, with_ownership
from quintet.runtime.ownwrites import OwnWrites
from quintet.runtime.watch import Selection

REPAIRED = "Repaired"


class ForeignObject(Exception):
    """An object that has the name of a child, but is not controlled by its owner."""

    def __init__(self, resource: Resource, key: ObjectKey) -> None:
        what = f"{resource.kind} {key} exists and is not controlled by this object"
        super().__init__(f"{what}: rename or delete it")
        self.resource = resource


class Contested(KubeError):
    """Another writer keeps changing a field of ours; the controller restores it at a limited rate."""

    def __init__(self, resource: Resource, key: ObjectKey, wait: float) -> None:
        super().__init__(f"{resource.kind} {key} is changed again and again by another writer")
        self.retry_after = wait


class Children:
    """The children of one owner type: read from caches, written under one field manager."""

    def __init__(
        self,
        client: Client,
        owner_type: Resource,
        writes: OwnWrites,
        clock: Clock,
        events: Recorder | None = None,
    ) -> None:
        self._client = client
        self._events = events
        self._owner_type = owner_type
        self._writes = writes
        self._repairs = RepairBudget(clock)
        self._sources: dict[Resource, tuple[Selection[Child[Any]], Store[Child[Any]]]] = {}

    def add_source(self, selection: Selection[Child[Any]], store: Store[Child[Any]]) -> None:
        """Register the cache of a type of children."""
        self._sources[selection.resource] = (selection, store)

    def get(self, resource: Resource, key: ObjectKey) -> Child[Any] | None:
        """Return a child from the cache."""
        return self._sources[resource][1].get(key)

    async def ensure(self, owner: Object, resource: Resource, body: JsonObject) -> Child[Any]:
        """Create or update the child to match `body`, and return it.

        A child that is being deleted is returned unchanged: its end requeues the owner.
        Leave empty values out of `body`: the server drops them without a record in managedFields, which
        costs one needless apply.
        """
        desired = with_ownership(body, owner, self._owner_type)
        child, created = await self._get_or_create(owner, resource, desired)
        if created or child.deleting or is_unchanged(child, desired):
            return child
        return await self._update(owner, resource, child, desired)

    async def create(self, owner: Object, resource: Resource, body: JsonObject) -> Child[Any]:
        """Create the child if there is none; an existing child of ours is returned unchanged."""
        return (await self._get_or_create(owner, resource, with_ownership(body, owner, self._owner_type)))[0]

    async def remove(
        self, owner: Object, resource: Resource, name: str | ObjectKey, *, propagation: str = "Background"
    ) -> bool:
        """Delete a child of ours; True once it is gone. Reads the server, not the cache.

        An owner without a namespace needs the whole key of the child.
        """
        key = name if isinstance(name, ObjectKey) else ObjectKey(owner.metadata.namespace, name)
        try:
            child = await self._read(resource, key)
            if not belongs_to(child, owner):
                return True
            if not child.deleting:
                await self._client.delete(resource, key, uid=child.uid, propagation=propagation)
        except NotFound:
            return True
        return False

    async def _get_or_create(
        self, owner: Object, resource: Resource, desired: JsonObject
    ) -> tuple[Child[Any], bool]:
        """Return a child of ours, and whether it was created just now."""
        # An owner without a namespace may have children in any; others have them in their own.
        namespace = owner.metadata.namespace or desired["metadata"].get("namespace", "")
        key = ObjectKey(namespace, desired["metadata"]["name"])
        child = self.get(resource, key)
        if child is None:
            try:
                return await self._create(owner, resource, key, desired), True
            except AlreadyExists:
                # The response of our POST was lost, our label was removed, or it is foreign: ask the server.
                child = await self._read(resource, key)
        if not belongs_to(child, owner):
            raise ForeignObject(resource, key)
        return child, False

    async def _create(
        self, owner: Object, resource: Resource, key: ObjectKey, desired: JsonObject
    ) -> Child[Any]:
        # POST fails if the object exists, whereas an apply would take it over. It also costs the server
        # a third less than an apply that creates.
        selection, store = self._sources[resource]
        with self._writes.track(owner.key, store, key) as write:
            response = await self._client.create(resource, desired, Raw, namespace=key.namespace)
            child = selection.decode(response)
            write.response_version = child.version
        return child

    async def _update(
        self, owner: Object, resource: Resource, child: Child[Any], desired: JsonObject
    ) -> Child[Any]:
        if (wait := self._repairs.wait(child.uid)) > 0:
            raise Contested(resource, child.key, wait)
        changes = await self._find_changes(resource, child, desired)
        # The uid makes the server reject the write if another object has that name now.
        body = {**desired, "metadata": {**desired["metadata"], "uid": child.uid}}
        selection, store = self._sources[resource]
        with self._writes.track(owner.key, store, child.key) as write:
            if child.created_entry is not None:
                await self._adopt_creation(resource, child)
            try:
                response = await self._client.apply(resource, child.key, body, Raw)
            except Invalid as refusal:
                await self._clear_clashes(resource, child, desired, refusal)
                response = await self._client.apply(resource, child.key, body, Raw)
            applied = selection.decode(response)
            write.response_version = applied.version
        if changes and self._events is not None:
            note = f"{resource.kind} {child.key.name}: {describe_changes(changes)}"
            self._events.record(
                self._owner_type, owner.key, owner.metadata.uid, NORMAL, REPAIRED, note, action="Repair"
            )
        return applied

    async def _find_changes(
        self, resource: Resource, child: Child[Any], desired: JsonObject
    ) -> list[ChangedField]:
        """Return what others changed in a child whose desired state is still the same."""
        mark = f"{child.applied_for}/{child.applied}"
        if self._events is None or mark != desired["metadata"]["annotations"][APPLIED]:
            return []
        live = await self._client.get(resource, child.key, View)
        return find_changed_fields(live.metadata.managed_fields, desired, self._client.field_manager)

    async def _adopt_creation(self, resource: Resource, child: Child[Any]) -> None:
        """Turn the managedFields entry of our POST into one of an apply.

        Server-side apply removes a field that we no longer send only if an *apply* of ours set it; the
        entry of a POST would keep it for ever.
        """
        entry = f"/metadata/managedFields/{child.created_entry}"
        manager, operation = f"{entry}/manager", f"{entry}/operation"
        seen = {"/metadata/uid": child.uid, manager: self._client.field_manager, operation: "Update"}
        operations = [{"op": "test", "path": path, "value": value} for path, value in seen.items()]
        operations.append({"op": "replace", "path": operation, "value": "Apply"})
        try:
            await self._client.patch(resource, child.key, operations, Object, content_type=JSON)
        except Invalid:
            # An entry of another manager may have moved ours since it was read.
            live = await self._read(resource, child.key)
            if (live.uid, live.created_entry) == (child.uid, child.created_entry):
                raise
            if live.uid == child.uid and live.created_entry is not None:
                await self._adopt_creation(resource, live)

    async def _clear_clashes(
        self, resource: Resource, child: Child[Any], desired: JsonObject, refusal: Invalid
    ) -> None:
        """Replace the lists in which items of others make ours invalid."""
        live = await self._client.get(resource, child.key, dict[str, Any])
        if live["metadata"]["uid"] != child.uid:
            raise Conflict(refusal.request, Status("another object has that name now", "Conflict", 409))
        clashes = dict(clash for cause in refusal.causes if (clash := find_clash(cause.field, live, desired)))
        if not clashes:
            raise refusal
        # A JSON pointer names an item by its index: with the version, the server rejects it if items moved.
        values = {"/metadata/resourceVersion": live["metadata"]["resourceVersion"], **clashes}
        operations = [{"op": "replace", "path": path, "value": value} for path, value in values.items()]
        await self._client.patch(resource, child.key, operations, Object, content_type=JSON)

    async def _read(self, resource: Resource, key: ObjectKey) -> Child[Any]:
        return self._sources[resource][0].decode(await self._client.get(resource, key, Raw))
