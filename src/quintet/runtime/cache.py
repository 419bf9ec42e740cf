"""The cache: what we know of one type of objects, as small projections.

Filled by `watch`, read by controllers, observed by `handlers`. Everything happens in one
event loop between two awaits, so a reader always sees one consistent state.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from quintet.apis.meta import ObjectKey, Struct


class Cached(Protocol):
    """What every cached object can say."""

    @property
    def key(self) -> ObjectKey:
        """Where it is."""
        ...

    @property
    def version(self) -> int:
        """Its resourceVersion."""
        ...


C = TypeVar("C", bound=Cached)
Handler = Callable[[C | None, C | None, bool], None]
"""Called with the old and the new state (None: was or is not there), and whether this is the initial list."""
Indexer = Callable[[C], Iterable[str]]


class Undecodable(Struct, frozen=True):
    """What can be said of an object that does not fit its type."""

    key: ObjectKey
    version: int
    uid: str
    problem: str


class Store(Generic[C]):
    """All objects of one type that the watch selects, by key and by index."""

    def __init__(self, indexes: dict[str, Indexer[C]] | None = None) -> None:
        self._objects: dict[ObjectKey, C] = {}
        self._indexers = indexes or {}
        self._indexes: dict[str, dict[str, set[ObjectKey]]] = {name: {} for name in self._indexers}
        self._handlers: list[Handler[C]] = []
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.broken: dict[ObjectKey, Undecodable] = {}
        self.on_broken: list[Callable[[ObjectKey, bool], None]] = []
        self.version = 0
        self.synced = asyncio.Event()

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[C]:
        return iter(self._objects.values())

    def get(self, key: ObjectKey) -> C | None:
        """One object, if it is there."""
        return self._objects.get(key)

    def all_keys(self) -> list[ObjectKey]:
        """Of all objects, also of those that do not decode."""
        return [*self._objects, *self.broken]

    def by_index(self, index: str, value: str) -> list[C]:
        """The objects that an index files under a value."""
        return [self._objects[key] for key in self._indexes[index].get(value, ())]

    def subscribe(self, handler: Handler[C]) -> None:
        """Be told of every change from now on."""
        self._handlers.append(handler)

    def call_when_passed(self, version: int, callback: Callable[[], None]) -> None:
        """Call back once this cache has seen everything up to a version."""
        if self.version >= version:
            callback()
        else:
            heapq.heappush(self._waiting, (version, next(self._numbers), callback))

    def put(self, obj: C) -> None:
        """Take in an object as the server reports it; nothing happens if it is not news."""
        if self._known_version(obj.key) >= obj.version:
            return
        old = self._objects.get(obj.key)
        self.broken.pop(obj.key, None)
        self._objects[obj.key] = obj
        self._reindex(obj.key, old, obj)
        self._notify(old, obj)

    def put_broken(self, item: Undecodable) -> None:
        """Take note of an object that does not decode; its last good state no longer counts."""
        if self._known_version(item.key) >= item.version:
            return
        self.broken[item.key] = item
        if (old := self._objects.pop(item.key, None)) is not None:
            self._reindex(item.key, old, None)
        for call in self.on_broken:
            call(item.key, not self.synced.is_set())

    def remove(self, key: ObjectKey, version: int | None = None) -> None:
        """Drop an object that is gone, or no longer selected; with a version, only if none newer is known."""
        if version is not None and self._known_version(key) > version:
            return
        self.broken.pop(key, None)
        if (old := self._objects.pop(key, None)) is not None:
            self._reindex(key, old, None)
            self._notify(old, None)

    def advance(self, version: int) -> None:
        """Everything up to this version has been seen."""
        self.version = max(version, self.version)
        while self._waiting and self._waiting[0][0] <= self.version:
            heapq.heappop(self._waiting)[2]()

    def replaced(self, keep: set[ObjectKey], version: int) -> None:
        """A whole list has been put in: what it did not name is gone."""
        for key in set(self.all_keys()) - keep:
            self.remove(key)
        self.synced.set()
        self.advance(version)

    def _known_version(self, key: ObjectKey) -> int:
        """Return the version in which an object is known, whether it decodes or not; -1 if it is not."""
        known: Cached | Undecodable | None = self._objects.get(key)
        if known is None:
            known = self.broken.get(key)
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
