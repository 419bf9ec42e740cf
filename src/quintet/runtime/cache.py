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
    """The objects of one type that a watch selects, by key and by index."""

    def __init__(self, indexes: dict[str, Indexer[C]] | None = None) -> None:
        self._objects: dict[ObjectKey, C] = {}
        self._indexers = indexes or {}
        self._indexes: dict[str, dict[str, set[ObjectKey]]] = {name: {} for name in self._indexers}
        self._handlers: list[Handler[C]] = []
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.undecodable: dict[ObjectKey, Undecodable] = {}
        self.on_undecodable: list[Callable[[ObjectKey, bool], None]] = []
        self.version = 0
        self.synced = asyncio.Event()

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

    def subscribe(self, handler: Handler[C]) -> None:
        """Call a handler for every change from now on."""
        self._handlers.append(handler)

    def call_when_passed(self, version: int, callback: Callable[[], None]) -> None:
        """Call a function once this cache has seen everything up to a version."""
        if self.version >= version:
            callback()
        else:
            heapq.heappush(self._waiting, (version, next(self._numbers), callback))

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
            call(item.key, not self.synced.is_set())

    def remove(self, key: ObjectKey, version: int | None = None) -> None:
        """Drop an object that is gone or no longer selected; with a version, only if none newer is known."""
        if version is not None and self._known_version(key) > version:
            return
        self.undecodable.pop(key, None)
        if (old := self._objects.pop(key, None)) is not None:
            self._reindex(key, old, None)
            self._notify(old, None)

    def advance(self, version: int) -> None:
        """Record that everything up to this version has been seen."""
        self.version = max(version, self.version)
        while self._waiting and self._waiting[0][0] <= self.version:
            heapq.heappop(self._waiting)[2]()

    def finish_list(self, keep: set[ObjectKey], version: int) -> None:
        """Finish a list: drop the objects that it did not contain."""
        for key in set(self.all_keys()) - keep:
            self.remove(key)
        self.synced.set()
        self.advance(version)

    def _known_version(self, key: ObjectKey) -> int:
        """Return the known version of an object, whether it decodes or not; -1 if it is unknown."""
        known: Cached | Undecodable | None = self._objects.get(key)
        if known is None:
            known = self.undecodable.get(key)
        return known.version if known is not None else -1

    def _notify(self, old: C | None, new: C | None) -> None:
        initial = not self.synced.is_set()
        for handler in self._handlers:
            handler(old, new, initial)

    def _reindex(self, key: ObjectKey, old: C | None, new: C | None) -> None:
        for name, indexer in self._indexers.items():
            index = self._indexes[name]
            for value in indexer(old) if old is not None else ():
                index[value].discard(key)
                if not index[value]:
                    del index[value]
            for value in indexer(new) if new is not None else ():
                index.setdefault(value, set()).add(key)
