"""Watches that start and stop with the configs that need them.

They impersonate the ServiceAccount of a config's namespace, so a config never sees more than that
ServiceAccount. Errors of a watch, expected or not, are reported by the configs that need it and do not
affect other watches.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from quintet.apis.meta import JsonObject, ObjectKey, Resource, Struct
from quintet.clock import Clock
from quintet.kube.client import Client
from quintet.kube.errors import Forbidden, NotFound, Unsupported
from quintet.kube.versions import Versions
from quintet.runtime.cache import Store
from quintet.runtime.queue import INITIAL, LIVE, WorkQueue
from quintet.runtime.watch import Selection, Watch, WatchTimeouts

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(JsonObject).decode
# Errors that do not go away by themselves.
_REFUSALS = (Forbidden, NotFound, Unsupported)
# Any other error is reported too if the first list takes longer than this.
FIRST_LIST_SECONDS = 30.0
RESTART_SECONDS = 30.0
# Metadata that changes without a change of the desired state.
_DROPPED_METADATA = ("resourceVersion", "managedFields", "generation", "selfLink")

log = logging.getLogger(__name__)


class WatchScope(NamedTuple):
    """Objects of one type in one namespace (or all), as one ServiceAccount sees them."""

    service_account: ObjectKey
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
    """The order of its resourceVersion among those of the watch."""
    resource_version: str
    uid: str
    deleting: bool
    body: bytes

    def decode(self) -> JsonObject:
        """Return the object, without managedFields; targets also without status."""
        obj = _decode(self.body)
        obj["metadata"]["resourceVersion"] = self.resource_version
        return obj


def to_cached_object(scope: WatchScope, obj: JsonObject, versions: Versions) -> CachedObject:
    """Return the relevant part of an object; sources are kept whole, as values may come from any field."""
    whole, resource = obj["metadata"], scope.resource
    version = whole["resourceVersion"]
    metadata = {name: value for name, value in whole.items() if name not in _DROPPED_METADATA}
    if scope.name and "generation" in whole:
        metadata["generation"] = whole["generation"]  # of a source
    kept = {name: value for name, value in obj.items() if name != "status" or scope.name}
    if not scope.whole:
        kept = {}
    # List items have no apiVersion and kind, and metadata-only objects have other ones.
    kept |= {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return CachedObject(
        ObjectKey(whole.get("namespace", ""), whole["name"]),
        versions.number(version),
        version,
        whole.get("uid", ""),
        "deletionTimestamp" in whole,
        _encode(kept),
    )


@dataclass(slots=True, eq=False)
class ActiveWatch:
    """A running watch and the configs that need it."""

    store: Store[CachedObject]
    begun: float
    versions: Versions = field(default_factory=Versions)
    task: asyncio.Task[None] | None = None
    error: Exception | None = None
    users: set[ObjectKey] = field(default_factory=set)

    @property
    def is_refused(self) -> bool:
        """Whether the API server refuses the watch, as opposed to failing."""
        return isinstance(self.error, _REFUSALS)

    @property
    def ready(self) -> bool:
        """Whether the cache is complete and current."""
        return self.store.synced.is_set() and self.error is None


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

    def __len__(self) -> int:
        return len(self._sights)

    async def run(self) -> None:
        """Wait until the process ends, then stop all watches."""
        try:
            await asyncio.Event().wait()
        finally:
            for active in self._sights.values():
                if active.task is not None:
                    active.task.cancel()

    def set_scopes(self, config: ObjectKey, scopes: Iterable[WatchScope]) -> dict[WatchScope, ActiveWatch]:
        """Watch exactly these scopes for a config; watches that no config needs are stopped."""
        wanted = frozenset(scopes)
        for scope in self._scopes_for.get(config, frozenset()) - wanted:
            active = self._sights[scope]
            active.users.discard(config)
            if not active.users:
                del self._sights[scope]
                if active.task is not None:
                    active.task.cancel()
        if wanted:
            self._scopes_for[config] = wanted
        else:
            self._scopes_for.pop(config, None)
        watches = {scope: self._sights.get(scope) or self._begin(scope) for scope in wanted}
        for active in watches.values():
            active.users.add(config)
        return watches

    def record_write(self, scope: WatchScope, answer: JsonObject) -> None:
        """Store the response of a write, so that the next decision is not based on older data."""
        active = self._sights.get(scope)
        version = (
            active.versions.comparable(answer["metadata"]["resourceVersion"]) if active is not None else None
        )
        # A store at a later version has seen this write already, and possibly the object's deletion.
        if active is not None and version is not None and version > active.store.version:
            active.store.put(to_cached_object(scope, answer, active.versions))

    def known(self, scope: WatchScope, key: ObjectKey) -> CachedObject | None:
        """Return an object from the cache."""
        active = self._sights.get(scope)
        return active.store.get(key) if active is not None else None

    def _begin(self, scope: WatchScope) -> ActiveWatch:
        store: Store[CachedObject] = Store()
        active = self._sights[scope] = ActiveWatch(store, self._clock.monotonic())
        store.subscribe(lambda old, new, initial: self._on_change(active, old, new, initial))
        store.call_when_passed(1, lambda: self._on_recovery(active))
        selection = Selection(
            scope.resource,
            _decoder(scope, active.versions),
            scope.namespace,
            fields=f"metadata.name={scope.name}" if scope.name else "",
            metadata_only=not scope.whole,
            versions=active.versions,
        )
        watch = Watch(
            self._client.impersonate(scope.service_account),
            selection,
            store,
            self._clock,
            self._timeouts,
            lambda error: self._on_error(active, error),
        )
        name = f"watch {watch.name} as {scope.service_account}"
        active.task = asyncio.create_task(self._run_watch(active, watch), name=name)
        return active

    async def _run_watch(self, active: ActiveWatch, watch: Watch[CachedObject]) -> None:
        """Run a watch until it is cancelled; after an unexpected error, report it and start again."""
        while True:
            try:
                await watch.run()
            except Exception as error:
                # What a third-party API server sends must not end the process.
                log.exception("Watch failed", extra={"resource": watch.name})
                self._report(active, error)
            await self._clock.sleep(RESTART_SECONDS)

    def _on_change(
        self, active: ActiveWatch, old: CachedObject | None, new: CachedObject | None, initial: bool
    ) -> None:
        if old is not None and new is not None and (old.body, old.uid) == (new.body, new.uid):
            return
        # The first list wakes the configs once, when it is complete.
        if active.store.synced.is_set():
            self._wake(active, INITIAL if initial else LIVE)

    def _on_error(self, active: ActiveWatch, error: Exception) -> None:
        # Interruptions recover by themselves and are not reported; refusals are.
        refused = isinstance(error, _REFUSALS)
        if str(error) == str(active.error) or not (refused or self._is_first_list_late(active)):
            return
        self._report(active, error)

    def _report(self, active: ActiveWatch, error: Exception) -> None:
        """Let the configs report an error, until the watch makes progress."""
        active.error = error
        store = active.store
        store.call_when_passed(store.version + 1, lambda: self._on_recovery(active))
        self._wake(active, LIVE)

    def _is_first_list_late(self, active: ActiveWatch) -> bool:
        """Return whether to report that the first list is late; only the first such error is reported."""
        late = self._clock.monotonic() - active.begun >= FIRST_LIST_SECONDS
        return late and not active.store.synced.is_set() and (active.error is None or active.is_refused)

    def _on_recovery(self, active: ActiveWatch) -> None:
        active.error = None
        self._wake(active, LIVE)

    def _wake(self, active: ActiveWatch, priority: int) -> None:
        for config in active.users:
            self._queue.add(config, priority)


def _decoder(scope: WatchScope, versions: Versions) -> Callable[[msgspec.Raw], CachedObject]:
    decode: Callable[[Any], JsonObject] = _decode

    def decode_cached(raw: msgspec.Raw) -> CachedObject:
        return to_cached_object(scope, decode(raw), versions)

    return decode_cached
