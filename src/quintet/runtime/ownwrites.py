"""Our own writes: so that nobody decides on a cache that has not seen them, nor is woken by them.

A cache lags behind the server. Deciding twice on the same stale state is how operators
make too many replicas: `controller` puts a key aside until the caches have passed the
versions that were written for it. And the echo of a write is no news: whoever made it
has seen the answer, so `builder` lets the echo pass without waking its owner.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from quintet.apis.meta import ObjectKey
from quintet.runtime.cache import Cached, Store

_Place = tuple[Store[Any], ObjectKey]


class Sending:
    """One write that is on its way; told its outcome by whoever sends it."""

    def __init__(self) -> None:
        self.answered: int | None = None
        """The version that the server answered with."""
        self.seen: int | None = None
        """The version that the cache has seen in the meantime."""


class OwnWrites:
    """What one controller has written for which key."""

    def __init__(self, wake: Callable[[ObjectKey], None]) -> None:
        self._wake = wake
        self._versions: dict[ObjectKey, dict[Store[Any], int]] = {}
        # Several where two owners want the same child.
        self._sending: dict[_Place, list[Sending]] = {}
        self._echoes: dict[_Place, int] = {}

    @contextlib.contextmanager
    def sending(self, owner: ObjectKey, store: Store[Any], key: ObjectKey) -> Iterator[Sending]:
        """Around a write to a child; set `answered` on what it gives."""
        place, write = (store, key), Sending()
        self._sending.setdefault(place, []).append(write)
        try:
            yield write
        finally:
            self._sending[place].remove(write)
            if not self._sending[place]:
                del self._sending[place]
            if write.answered is not None:
                self.record(owner, store, write.answered)
                if write.seen is None and store.version < write.answered:
                    self._echoes[place] = write.answered
            if write.seen is not None and write.seen != write.answered:
                self._wake(owner)  # what was seen meanwhile was not our doing after all

    def is_echo(self, store: Store[Any], obj: Cached) -> bool:
        """Whether a change in a cache is nothing but our own write coming back."""
        place = (store, obj.key)
        if (writes := self._sending.get(place)) is not None:
            for write in writes:
                write.seen = obj.version  # the event overtook the answer: `sending` compares the two
            return True
        return self._echoes.pop(place, None) == obj.version

    def record(self, key: ObjectKey, store: Store[Any], version: int) -> None:
        """A write made for `key` gave this version."""
        if version > store.version:
            versions = self._versions.setdefault(key, {})
            versions[store] = max(version, versions.get(store, 0))

    def missing(self, key: ObjectKey) -> tuple[Store[Any], int] | None:
        """A cache that has not seen our writes for this key yet, and what it has to reach."""
        for store, version in self._versions.get(key, {}).items():
            if store.version < version:
                return store, version
        self._versions.pop(key, None)
        return None
