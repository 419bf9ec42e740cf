"""Watches that start and stop with the configs that need them.

They impersonate the ServiceAccount of a config's namespace, so a config never sees more than that
ServiceAccount. Errors of a watch are reported by the configs that need it and do not affect the process.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from quintet.apis.meta import JsonObject, ObjectKey, Resource, Struct
from quintet.clock import Clock
from quintet.kube.client import Client
from quintet.kube.errors import Forbidden, NotFound, Unsupported
from quintet.runtime.cache import Store
from quintet.runtime.queue import INITIAL, LIVE, WorkQueue
from quintet.runtime.watch import Selection, Watch, WatchTimeouts

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(JsonObject).decode
# Errors that do not go away by themselves.
_REFUSALS = (Forbidden, NotFound, Unsupported)
# Any other error is reported too if the first list takes longer than this.
FIRST_LIST_SECONDS = 30.0
# Metadata that changes without a change of the desired state.
_DROPPED_METADATA = ("resourceVersion", "managedFields", "generation", "selfLink")


class WatchScope(NamedTuple):
    """Objects of one type in one namespace (or all), as one ServiceAccount sees them."""

    account: ObjectKey
    resource: Resource
    namespace: str
    whole: bool
    """Whether whole objects are watched, not only their metadata."""
    name: str = ""
    """Name of a single object; empty for all."""


class CachedObject(Struct, frozen=True):
    """The relevant part of an object, encoded."""

    key: ObjectKey
    version: int
    uid: str
    deleting: bool
    body: bytes

    def decode(self) -> JsonObject:
        """Return the object, without managedFields; targets also without status."""
        obj = _decode(self.body)
        obj["metadata"]["resourceVersion"] = str(self.version)
        return obj


def to_cached_object(place: WatchScope, obj: JsonObject) -> CachedObject:
    """Return the relevant part of an object; sources are kept whole, as values may come from any field."""
    whole, resource = obj["metadata"], place.resource
    metadata = {name: value for name, value in whole.items() if name not in _DROPPED_METADATA}
    kept = {name: value for name, value in obj.items() if name != "status" or place.name}
    if not place.whole:
        kept = {}
    # List items have no apiVersion and kind, and metadata-only objects have other ones.
    kept |= {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return CachedObject(
        ObjectKey(whole.get("namespace", ""), whole["name"]),
        int(whole["resourceVersion"]),
        whole.get("uid", ""),
        "deletionTimestamp" in whole,
        _encode(kept),
    )


@dataclass(slots=True, eq=False)
class ActiveWatch:
    """A running watch and the configs that need it."""

    store: Store[CachedObject]
    begun: float
    task: asyncio.Task[None] | None = None
    trouble: Exception | None = None
    users: set[ObjectKey] = field(default_factory=set)

    @property
    def is_refused(self) -> bool:
        """Whether the API server refuses the watch, as opposed to failing."""
        return isinstance(self.trouble, _REFUSALS)

    @property
    def ready(self) -> bool:
        """Whether the cache is complete and current."""
        return self.store.synced.is_set() and self.trouble is None


class Watches:
    """The watches of all configs."""

    def __init__(
        self, client: Client, clock: Clock, queue: WorkQueue, timeouts: WatchTimeouts | None = None
    ) -> None:
        self._client = client
        self._clock = clock
        self._queue = queue
        self._timeouts = timeouts
        self._sights: dict[WatchScope, ActiveWatch] = {}
        self._scopes_for: dict[ObjectKey, frozenset[WatchScope]] = {}
        self._crashed: asyncio.Queue[BaseException] = asyncio.Queue()

    def __len__(self) -> int:
        return len(self._sights)

    async def run(self) -> None:
        """Run until the process ends; a crashed watch raises its exception here."""
        try:
            raise await self._crashed.get()
        finally:
            for sight in self._sights.values():
                if sight.task is not None:
                    sight.task.cancel()

    def set_scopes(self, config: ObjectKey, places: Iterable[WatchScope]) -> dict[WatchScope, ActiveWatch]:
        """Watch exactly these scopes for a config; watches that no config needs are stopped."""
        wanted = frozenset(places)
        for place in self._scopes_for.get(config, frozenset()) - wanted:
            sight = self._sights[place]
            sight.users.discard(config)
            if not sight.users:
                del self._sights[place]
                if sight.task is not None:
                    sight.task.cancel()
        if wanted:
            self._scopes_for[config] = wanted
        else:
            self._scopes_for.pop(config, None)
        watches = {place: self._sights.get(place) or self._begin(place) for place in wanted}
        for sight in watches.values():
            sight.users.add(config)
        return watches

    def record_write(self, place: WatchScope, answer: JsonObject) -> None:
        """Store the response of a write, so that the next decision is not based on older data."""
        sight = self._sights.get(place)
        # A store at a later version has seen this write already, and possibly the object's deletion.
        if sight is not None and int(answer["metadata"]["resourceVersion"]) > sight.store.version:
            sight.store.put(to_cached_object(place, answer))

    def known(self, place: WatchScope, key: ObjectKey) -> CachedObject | None:
        """Return an object from the cache."""
        sight = self._sights.get(place)
        return sight.store.get(key) if sight is not None else None

    def _begin(self, place: WatchScope) -> ActiveWatch:
        store: Store[CachedObject] = Store()
        sight = self._sights[place] = ActiveWatch(store, self._clock.monotonic())
        store.subscribe(lambda old, new, initial: self._on_change(sight, old, new, initial))
        store.call_when_passed(1, lambda: self._on_recovery(sight))
        selection = Selection(
            place.resource,
            _decoder(place),
            place.namespace,
            fields=f"metadata.name={place.name}" if place.name else "",
            metadata_only=not place.whole,
        )
        watch = Watch(
            self._client.acting_as(place.account),
            selection,
            store,
            self._clock,
            self._timeouts,
            lambda error: self._on_error(sight, error),
        )
        name = f"watch {watch.name} as {place.account}"
        sight.task = asyncio.create_task(watch.run(), name=name)
        sight.task.add_done_callback(self._on_task_done)
        return sight

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._crashed.put_nowait(error)

    def _on_change(
        self, sight: ActiveWatch, old: CachedObject | None, new: CachedObject | None, initial: bool
    ) -> None:
        if old is not None and new is not None and (old.body, old.uid) == (new.body, new.uid):
            return
        # The first list wakes the configs once, when it is complete.
        if sight.store.synced.is_set():
            self._wake(sight, INITIAL if initial else LIVE)

    def _on_error(self, sight: ActiveWatch, error: Exception) -> None:
        # Interruptions recover by themselves and are not reported; refusals are.
        refused = isinstance(error, _REFUSALS)
        if str(error) == str(sight.trouble) or not (refused or self._is_first_list_late(sight)):
            return
        sight.trouble = error
        store = sight.store
        store.call_when_passed(store.version + 1, lambda: self._on_recovery(sight))
        self._wake(sight, LIVE)

    def _is_first_list_late(self, sight: ActiveWatch) -> bool:
        """Return whether to report that the first list is late; only the first such error is reported."""
        late = self._clock.monotonic() - sight.begun >= FIRST_LIST_SECONDS
        return late and not sight.store.synced.is_set() and (sight.trouble is None or sight.is_refused)

    def _on_recovery(self, sight: ActiveWatch) -> None:
        sight.trouble = None
        self._wake(sight, LIVE)

    def _wake(self, sight: ActiveWatch, priority: int) -> None:
        for config in sight.users:
            self._queue.add(config, priority)


def _decoder(place: WatchScope) -> Callable[[msgspec.Raw], CachedObject]:
    decode: Callable[[Any], JsonObject] = _decode

    def decode_cached(raw: msgspec.Raw) -> CachedObject:
        return to_cached_object(place, decode(raw))

    return decode_cached
