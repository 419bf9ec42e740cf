"""Our own writes, so that nobody decides on a cache that has not seen them yet.

A cache lags behind the server. Deciding twice on the same stale state is how operators
make too many replicas. `apply` and `status` record each write; `controller` puts a key
aside until the caches have passed the versions that were written for it.
"""

from typing import Any

from quintet.apis.meta import ObjectKey
from quintet.runtime.cache import Store


class OwnWrites:
    """The highest version written per key and cache."""

    def __init__(self) -> None:
        self._versions: dict[ObjectKey, dict[Store[Any], int]] = {}

    def record(self, key: ObjectKey, store: Store[Any], version: int) -> None:
        """A write made for `key` gave this version."""
        if version > store.version:
            versions = self._versions.setdefault(key, {})
            versions[store] = max(version, versions.get(store, 0))

    def missing(self, key: ObjectKey) -> tuple[Store[Any], int] | None:
        """A cache that has not seen our writes for this key yet, and what it has to reach."""
        versions = self._versions.get(key)
        if versions is None:
            return None
        for store, version in versions.items():
            if store.version < version:
                return store, version
        del self._versions[key]
        return None
