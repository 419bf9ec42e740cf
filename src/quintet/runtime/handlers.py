"""Maps the change of an object to the keys that the queue should reconcile."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from quintet.apis.meta import Object, ObjectKey
from quintet.runtime.cache import Cached, Handler
from quintet.runtime.queue import INITIAL, LIVE, WorkQueue

C = TypeVar("C", bound=Cached)
Mapping = Callable[[C], Iterable[ObjectKey]]
Predicate = Callable[[C, C], bool]


def own_key(obj: Cached) -> Iterable[ObjectKey]:
    """Return the object's own key."""
    return (obj.key,)


def changes_desired_state(old: Object, new: Object) -> bool:
    """Return whether spec or metadata changed; our own status writes do not count."""
    before, after = old.metadata, new.metadata
    return (
        before.generation != after.generation
        or before.deletion_timestamp != after.deletion_timestamp
        or before.uid != after.uid
        or before.finalizers != after.finalizers
        or before.labels != after.labels
        or before.annotations != after.annotations
    )


def enqueue(queue: WorkQueue, mapping: Mapping[C], is_relevant: Predicate[C] | None = None) -> Handler[C]:
    """Return a handler that queues every key that the old or the new state maps to."""

    def handle(old: C | None, new: C | None, initial: bool) -> None:
        if is_relevant is not None and old is not None and new is not None and not is_relevant(old, new):
            return
        priority = INITIAL if initial else LIVE
        for state in (old, new):
            if state is not None:
                for key in mapping(state):
                    queue.add(key, priority)

    return handle
