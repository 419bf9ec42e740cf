"""The only writer of children: brings them to what `desired` modules want, or leaves them be.

Called by kinds' controllers with an owner and a complete wanted object. What it promises:
nothing is sent when nothing differs; our fields are put back; fields of others stay; an
object that is not ours is never touched, not even when it appears under our hands.
"""

from typing import Any

from msgspec import Raw

from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.clock import Clock
from quintet.kube.client import JSON, Client
from quintet.kube.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound, Status
from quintet.runtime.cache import Store
from quintet.runtime.clashes import clash_at
from quintet.runtime.ownership import Child, as_applied, belongs_to, untouched
from quintet.runtime.ownwrites import OwnWrites
from quintet.runtime.watch import Selection


class ForeignObject(Exception):
    """An object of the wanted name is there, and it is not ours to touch."""

    def __init__(self, resource: Resource, key: ObjectKey) -> None:
        what = f"{resource.kind} {key} exists and is not controlled by this object"
        super().__init__(f"{what}: rename or delete it to go on")
        self.resource = resource


class Contested(KubeError):
    """Somebody keeps changing a field of ours; we put it back, but not as fast as they change it."""

    def __init__(self, resource: Resource, key: ObjectKey, wait: float) -> None:
        super().__init__(f"{resource.kind} {key} is changed back again and again by another writer")
        self.retry_after = wait


class RepairBudget:
    """How often one child may be put right: some times at once, then once a second.

    Two writers that undo each other must not do so as fast as the API server lets them.
    """

    def __init__(self, clock: Clock, *, burst: int = 30, per_second: float = 1.0) -> None:
        self._clock = clock
        self._burst = burst
        self._rate = per_second
        self._spent: dict[str, tuple[float, float]] = {}

    def wait(self, uid: str) -> float:
        """Seconds until the next repair of this child is due; 0 grants one now."""
        now = self._clock.monotonic()
        spent, since = self._spent.get(uid, (0.0, now))
        spent = max(0.0, spent - (now - since) * self._rate)
        if spent > self._burst - 1:
            return (spent - self._burst + 1) / self._rate
        self._spent[uid] = (spent + 1, now)
        if len(self._spent) > 10_000:
            self._spent.pop(next(iter(self._spent)))
        return 0.0


class Children:
    """The children of one owner type: read from caches, written under one field manager."""

    def __init__(self, client: Client, owner_type: Resource, writes: OwnWrites, clock: Clock) -> None:
        self._client = client
        self._owner_type = owner_type
        self._writes = writes
        self._repairs = RepairBudget(clock)
        self._sources: dict[Resource, tuple[Selection[Child[Any]], Store[Child[Any]]]] = {}

    def add_source(self, selection: Selection[Child[Any]], store: Store[Child[Any]]) -> None:
        """Make a type of children known (done by `builder`)."""
        self._sources[selection.resource] = (selection, store)

    def get(self, resource: Resource, key: ObjectKey) -> Child[Any] | None:
        """A child from the cache."""
        return self._sources[resource][1].get(key)

    async def ensure(self, owner: Object, resource: Resource, body: JsonObject) -> Child[Any]:
        """Make the child be as `body` says; returns it as it is afterwards.

        A child that is being deleted is returned as such: its end will bring the key back.
        Leave empty values out of `body`: the server drops them without a record, and what has
        no record costs one needless apply.
        """
        wanted = as_applied(body, owner, self._owner_type)
        child, made = await self._present(owner, resource, wanted)
        if made or child.deleting or untouched(child, wanted):
            return child
        return await self._update(owner, resource, child, wanted)

    async def create(self, owner: Object, resource: Resource, body: JsonObject) -> Child[Any]:
        """Make the child if there is none; one of ours that is there is returned as it is, never changed."""
        return (await self._present(owner, resource, as_applied(body, owner, self._owner_type)))[0]

    async def remove(
        self, owner: Object, resource: Resource, name: str | ObjectKey, *, propagation: str = "Background"
    ) -> bool:
        """Delete a child of ours; True once it is gone. Looks at the server, never at a cache.

        A whole key is for children of an owner that is in no namespace.
        """
        key = name if isinstance(name, ObjectKey) else ObjectKey(owner.metadata.namespace, name)
        try:
            child = await self._live(resource, key)
            if not belongs_to(child, owner):
                return True
            if not child.deleting:
                await self._client.delete(resource, key, uid=child.uid, propagation=propagation)
        except NotFound:
            return True
        return False

    async def _present(
        self, owner: Object, resource: Resource, wanted: JsonObject
    ) -> tuple[Child[Any], bool]:
        """A child of ours, and whether it was made just now."""
        # An owner without a namespace may have children in any; all others have theirs beside them.
        namespace = owner.metadata.namespace or wanted["metadata"].get("namespace", "")
        key = ObjectKey(namespace, wanted["metadata"]["name"])
        child = self.get(resource, key)
        if child is None:
            try:
                return await self._create(owner, resource, key, wanted), True
            except AlreadyExists:
                # Ours with the answer lost or the label removed, or somebody else's: only the server knows.
                child = await self._live(resource, key)
        if not belongs_to(child, owner):
            raise ForeignObject(resource, key)
        return child, False

    async def _create(
        self, owner: Object, resource: Resource, key: ObjectKey, wanted: JsonObject
    ) -> Child[Any]:
        # POST, because it refuses where there is an object already; an apply would take it over.
        # It also costs the server a third less than an apply that creates.
        selection, store = self._sources[resource]
        with self._writes.sending(owner.key, store, key) as write:
            answer = await self._client.create(resource, wanted, Raw, namespace=key.namespace)
            child = selection.decode(answer)
            write.answered = child.version
        return child

    async def _update(
        self, owner: Object, resource: Resource, child: Child[Any], wanted: JsonObject
    ) -> Child[Any]:
        if (wait := self._repairs.wait(child.uid)) > 0:
            raise Contested(resource, child.key, wait)
        # The uid makes the server refuse if the object was replaced by another of that name.
        body = {**wanted, "metadata": {**wanted["metadata"], "uid": child.uid}}
        selection, store = self._sources[resource]
        with self._writes.sending(owner.key, store, child.key) as write:
            if child.created_entry is not None:
                await self._adopt_creation(resource, child)
            try:
                answer = await self._client.apply(resource, child.key, body, Raw)
            except Invalid as refusal:
                await self._clear_clashes(resource, child, wanted, refusal)
                answer = await self._client.apply(resource, child.key, body, Raw)
            applied = selection.decode(answer)
            write.answered = applied.version
        return applied

    async def _adopt_creation(self, resource: Resource, child: Child[Any]) -> None:
        """Turn the record that our POST left into one of an apply.

        Server-side apply removes fields that we no longer send only if an *apply* of ours
        set them; the record of a POST would keep them alive for ever.
        """
        entry = f"/metadata/managedFields/{child.created_entry}"
        manager, operation = f"{entry}/manager", f"{entry}/operation"
        seen = {"/metadata/uid": child.uid, manager: self._client.field_manager, operation: "Update"}
        operations = [{"op": "test", "path": path, "value": value} for path, value in seen.items()]
        operations.append({"op": "replace", "path": operation, "value": "Apply"})
        try:
            await self._client.patch(resource, child.key, operations, Object, content_type=JSON)
        except Invalid:
            # The record of somebody else may have moved ours since it was seen.
            live = await self._live(resource, child.key)
            if (live.uid, live.created_entry) == (child.uid, child.created_entry):
                raise
            if live.uid == child.uid and live.created_entry is not None:
                await self._adopt_creation(resource, live)

    async def _clear_clashes(
        self, resource: Resource, child: Child[Any], wanted: JsonObject, refusal: Invalid
    ) -> None:
        """Replace the lists in which items of others keep ours from being valid."""
        live = await self._client.get(resource, child.key, dict[str, Any])
        if live["metadata"]["uid"] != child.uid:
            raise Conflict(refusal.request, Status("another object has that name now", "Conflict", 409))
        clashes = dict(clash for cause in refusal.causes if (clash := clash_at(cause.field, live, wanted)))
        if not clashes:
            raise refusal
        # A pointer names an item by its place: with its version, the server refuses if anything has moved.
        values = {"/metadata/resourceVersion": live["metadata"]["resourceVersion"], **clashes}
        operations = [{"op": "replace", "path": path, "value": value} for path, value in values.items()]
        await self._client.patch(resource, child.key, operations, Object, content_type=JSON)

    async def _live(self, resource: Resource, key: ObjectKey) -> Child[Any]:
        return self._sources[resource][0].decode(await self._client.get(resource, key, Raw))
