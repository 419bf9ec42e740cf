"""Annotations that control reconciliation, the same for every kind."""

from typing import Final

from quintet.apis.meta import ObjectMeta

SUSPENDED: Final = "quintet.dev/suspended"
"""`true`: the controller skips the object and its children."""
RECONCILE_AT: Final = "quintet.dev/reconcile-at"
"""A new value, usually the time, makes the controller reconcile the object now."""


def suspended(metadata: ObjectMeta) -> bool:
    """Return whether reconciliation is suspended; never for an object that is being deleted."""
    return metadata.annotations.get(SUSPENDED) == "true" and not metadata.deleting
