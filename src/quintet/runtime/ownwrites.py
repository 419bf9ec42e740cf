"""Tracks our own writes, so that no reconcile uses a cache without them, and none is triggered by them.

A cache lags behind the server. Deciding twice on the same stale state is how operators create too many
replicas: a key waits until the caches have seen the versions that were written for it. And a watch event for
our own write is no news: the controller has the response already.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from quintet.apis.meta import ObjectKey
from quintet.runtime.cache import Cached, Store

_CacheKey = tuple[Store[Any], ObjectKey]
# A cache and its source for a namespace (`Store.find_source`).
_CacheSource = tuple[Store[Any], str | None]


class PendingWrite:
    """A write that has no response yet."""

    def __init__(self) -> None:
        self.response_version: int | None = None
        """The resourceVersion in the response."""
        self.seen_version: int | None = None
        """The resourceVersion that the cache has seen meanwhile."""


class OwnWrites:
    """The writes of one controller, by the key that they were made for."""

    def __init__(self, requeue: Callable[[ObjectKey], None]) -> None:
        self._requeue = requeue
        self._versions: dict[ObjectKey, dict[_CacheSource, int]] = {}
        # Several if two owners desire the same child.
        self._pending: dict[_CacheKey, list[PendingWrite]] = {}
        self._echoes: dict[_CacheKey, int] = {}

    @contextlib.contextmanager
    def track(self, owner: ObjectKey, store: Store[Any], key: ObjectKey) -> Iterator[PendingWrite]:
        """Track a write to a child; set `response_version` on the result once there is a response."""
        entry, write = (store, key), PendingWrite()
        source = store.find_source(key.namespace)
        self._pending.setdefault(entry, []).append(write)
        try:
            yield write
        finally:
            self._pending[entry].remove(write)
            if not self._pending[entry]:
                del self._pending[entry]
            if write.response_version is not None:
                self._record(owner, (store, source), write.response_version)
                if write.seen_version is None and store.version_of(source) < write.response_version:
                    self._echoes[entry] = write.response_version
            if write.seen_version is not None and write.seen_version != write.response_version:
                self._requeue(owner)  # the cache has seen a change of somebody else meanwhile

    def is_echo(self, store: Store[Any], obj: Cached) -> bool:
        """Return whether a change in a cache is only our own write."""
        entry = (store, obj.key)
        if (writes := self._pending.get(entry)) is not None:
            for write in writes:
                write.seen_version = obj.version  # the event came before the response
            return True
        return self._echoes.pop(entry, None) == obj.version

    def record(self, key: ObjectKey, store: Store[Any], version: int) -> None:
        """Record the resourceVersion of a write that was made for `key`, to an object of its namespace."""
        self._record(key, (store, store.find_source(key.namespace)), version)

    def find_stale_cache(self, key: ObjectKey) -> tuple[Store[Any], str | None, int] | None:
        """Return a cache that has not seen our writes for this key, its source, and the version it needs."""
        for (store, source), version in self._versions.get(key, {}).items():
            if store.version_of(source) < version:
                return store, source, version
        self._versions.pop(key, None)
        return None

    def _record(self, key: ObjectKey, cache: _CacheSource, version: int) -> None:
        store, source = cache
        if version > store.version_of(source):
            versions = self._versions.setdefault(key, {})
            versions[cache] = max(version, versions.get(cache, 0))
