"""Suspended objects are not reconciled until they are resumed.

Deletion continues: finalizers run even if an object is suspended.
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
    """Wrap `reconcile` to skip suspended objects, with one Event per process when one is suspended."""
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
