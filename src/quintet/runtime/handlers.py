"""What a change of one object means for others: which keys go into the queue.

Subscribed to `cache` by `builder`; the story goes on in `queue`.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from quintet.apis.meta import Object, ObjectKey
from quintet.runtime.cache import Cached, Handler
from quintet.runtime.queue import INITIAL, LIVE, WorkQueue

C = TypeVar("C", bound=Cached)
Mapping = Callable[[C], Iterable[ObjectKey]]
Matters = Callable[[C, C], bool]


def itself(obj: Cached) -> Iterable[ObjectKey]:
    """The object's own key."""
    return (obj.key,)


def asked_for(old: Object, new: Object) -> bool:
    """Whether somebody wants something else now; our own status writes do not count."""
    before, after = old.metadata, new.metadata
    return (
        before.generation != after.generation
        or before.deletion_timestamp != after.deletion_timestamp
        or before.uid != after.uid
        or before.finalizers != after.finalizers
        or before.labels != after.labels
        or before.annotations != after.annotations
    )


def enqueue(queue: WorkQueue, mapping: Mapping[C], matters: Matters[C] | None = None) -> Handler[C]:
    """A handler that asks for every key that the old or the new state maps to."""

    def handle(old: C | None, new: C | None, initial: bool) -> None:
        if matters is not None and old is not None and new is not None and not matters(old, new):
            return
        priority = INITIAL if initial else LIVE
        for state in (old, new):
            if state is not None:
                for key in mapping(state):
                    queue.add(key, priority)

    return handle
