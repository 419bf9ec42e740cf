"""The cache of one type of objects, as small projections.

Everything happens in one event loop between two awaits, so a reader always sees one consistent state.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from quintet.apis.meta import ObjectKey, Struct


class Cached(Protocol):
    """An object that a cache can hold."""

    @property
    def key(self) -> ObjectKey:
        """Return its namespace and name."""
        ...

    @property
    def version(self) -> int:
        """Return its resourceVersion."""
        ...


C = TypeVar("C", bound=Cached)
Handler = Callable[[C | None, C | None, bool], None]
"""Takes the old and the new state (None: did or does not exist), and whether the initial list has it."""
Indexer = Callable[[C], Iterable[str]]


class Undecodable(Struct, frozen=True):
    """An object that does not fit its schema."""

    key: ObjectKey
    version: int
    uid: str
    problem: str


class Store(Generic[C]):
    """The objects of one type that one or several watches select, by key and by index.

    Each watch is a source: the name of the namespace that it watches, or "" for all namespaces. The versions
    of several sources are independent: one may have seen a version that another has not.
    """

    def __init__(self, indexes: dict[str, Indexer[C]] | None = None) -> None:
        self._objects: dict[ObjectKey, C] = {}
        self._indexers = indexes or {}
        self._indexes: dict[str, dict[str, set[ObjectKey]]] = {name: {} for name in self._indexers}
        self._handlers: list[Handler[C]] = []
        self._versions: dict[str, int] = {}
        self._unsynced: set[str] = set()
        self._waiting: dict[str | None, list[tuple[int, int, Callable[[], None]]]] = {}
        self._numbers = itertools.count()
        self.undecodable: dict[ObjectKey, Undecodable] = {}
        self.on_undecodable: list[Callable[[ObjectKey, bool], None]] = []
        self.synced = asyncio.Event()
        """Set once every source has its first list."""
        self.on_synced: list[Callable[[], None]] = []
        """Called when a source has its first list."""

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[C]:
        return iter(self._objects.values())

    def get(self, key: ObjectKey) -> C | None:
        """Return one object, if it exists."""
        return self._objects.get(key)

    def all_keys(self) -> list[ObjectKey]:
        """Return the keys of all objects, also of those that do not decode."""
        return [*self._objects, *self.undecodable]

    def by_index(self, index: str, value: str) -> list[C]:
        """Return the objects with this value in an index."""
        return [self._objects[key] for key in self._indexes[index].get(value, ())]

    @property
    def version(self) -> int:
        """The version up to which all sources have seen everything."""
        return self.version_of(None)

    def add_source(self, namespace: str) -> None:
        """Register a watch of a namespace, or of all with an empty name."""
        if namespace not in self._versions:
            self._versions[namespace] = 0
            self._unsynced.add(namespace)

    def find_source(self, namespace: str) -> str | None:
        """Return the source that has the objects of a namespace; None if only all sources together have."""
        if namespace in self._versions:
            return namespace
        return "" if "" in self._versions else None

    def is_synced(self, namespace: str) -> bool:
        """Return whether the objects of a namespace were listed; without a name, those of every source."""
        if self.synced.is_set():
            return True
        source = self.find_source(namespace) if namespace else None
        return source is not None and source not in self._unsynced

    def version_of(self, source: str | None) -> int:
        """Return the version up to which a source has seen everything."""
        if source is None:
            return min(self._versions.values(), default=0)
        return self._versions.get(source, 0)

    def subscribe(self, handler: Handler[C]) -> None:
        """Call a handler for every change from now on."""
        self._handlers.append(handler)

    def call_when_passed(self, version: int, callback: Callable[[], None], source: str | None = None) -> None:
        """Call a function once a source, by default every source, has seen everything up to a version."""
        if self.version_of(source) >= version:
            callback()
        else:
            heapq.heappush(self._waiting.setdefault(source, []), (version, next(self._numbers), callback))

    def put(self, obj: C) -> None:
        """Store an object that the server reported, unless a version at least as new is known."""
        if self._known_version(obj.key) >= obj.version:
            return
        old = self._objects.get(obj.key)
        self.undecodable.pop(obj.key, None)
        self._objects[obj.key] = obj
        self._reindex(obj.key, old, obj)
        self._notify(old, obj)

    def put_undecodable(self, item: Undecodable) -> None:
        """Record an object that does not decode, and drop its last valid state."""
        if self._known_version(item.key) >= item.version:
            return
        self.undecodable[item.key] = item
        if (old := self._objects.pop(item.key, None)) is not None:
            self._reindex(item.key, old, None)
        for call in self.on_undecodable:
            call(item.key, self._is_initial(item.key))

    def remove(self, key: ObjectKey, version: int | None = None) -> None:
        """Drop an object that is gone or no longer selected; with a version, only if none newer is known."""
        if version is not None and self._known_version(key) > version:
            return
        self.undecodable.pop(key, None)
        if (old := self._objects.pop(key, None)) is not None:
            self._reindex(key, old, None)
            self._notify(old, None)

    def advance(self, version: int, source: str = "") -> None:
        """Record that a source has seen everything up to this version."""
        self._versions[source] = max(version, self._versions.get(source, 0))
        for waiter in (source, None):
            waiting = self._waiting.get(waiter)
            while waiting and waiting[0][0] <= self.version_of(waiter):
                heapq.heappop(waiting)[2]()

    def finish_list(self, keep: set[ObjectKey], version: int, source: str = "") -> None:
        """Finish the list of a source: drop those of its objects that the list did not contain."""
        for key in set(self.all_keys()) - keep:
            if not source or key.namespace == source:
                self.remove(key)
        is_first = source in self._unsynced or not self.synced.is_set()
        self._unsynced.discard(source)
        if not self._unsynced:
            self.synced.set()
        self.advance(version, source)
        if is_first:
            for call in self.on_synced:
                call()

    def _known_version(self, key: ObjectKey) -> int:
        """Return the known version of an object, whether it decodes or not; -1 if it is unknown."""
        known: Cached | Undecodable | None = self._objects.get(key)
        if known is None:
            known = self.undecodable.get(key)
        return known.version if known is not None else -1

    def _notify(self, old: C | None, new: C | None) -> None:
        changed = new if new is not None else old
        initial = changed is not None and self._is_initial(changed.key)
        for handler in self._handlers:
            handler(old, new, initial)

    def _is_initial(self, key: ObjectKey) -> bool:
        """Return whether the source of an object has not finished its first list."""
        if self.synced.is_set():
            return False
        return not self._versions or self.find_source(key.namespace) in (None, *self._unsynced)

    def _reindex(self, key: ObjectKey, old: C | None, new: C | None) -> None:
        for name, indexer in self._indexers.items():
            index = self._indexes[name]
            for value in indexer(old) if old is not None else ():
                index[value].discard(key)
                if not index[value]:
                    del index[value]
            for value in indexer(new) if new is not None else ():
                index.setdefault(value, set()).add(key)
