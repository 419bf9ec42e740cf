"""An object that is suspended is left alone, and so are its children, until it is resumed.

Every kind wraps its `reconcile` in this where it is built, so no kind knows of it. Deleting goes on as
always: finalizers are taken care of, suspended or not. What was begun before is brought to its end.
"""

from typing import TypeVar

from quintet.apis.meta import Object, ObjectKey
from quintet.apis.steering import SUSPENDED, suspended
from quintet.runtime.builder import Builder
from quintet.runtime.events import NORMAL
from quintet.runtime.reconcile import Reconcile, Result

T = TypeVar("T", bound=Object)

_SUSPENDED = f"It and its children are left alone until it is resumed: the annotation {SUSPENDED} is set."
_RESUMED = "It is looked after again."


def unless_suspended(builder: Builder[T], reconcile: Reconcile) -> Reconcile:
    """The same, but for suspended objects. Each process that leads says once that one is suspended."""
    known: dict[ObjectKey, str] = {}

    def announce(obj: T, reason: str, note: str) -> None:
        builder.events.record(builder.resource, obj.key, obj.metadata.uid, NORMAL, reason, note)

    async def look(key: ObjectKey) -> Result:
        obj = builder.primary.get(key)
        if obj is not None and suspended(obj.metadata):
            if known.get(key) != obj.metadata.uid:
                known[key] = obj.metadata.uid
                announce(obj, "Suspended", _SUSPENDED)
            return Result.done()
        uid = known.pop(key, None)
        if obj is not None and uid == obj.metadata.uid and not obj.metadata.deleting:
            announce(obj, "Resumed", _RESUMED)
        return await reconcile(key)

    return look
