"""Annotations by which people steer a controller, the same on every kind."""

from typing import Final

from quintet.apis.meta import ObjectMeta

SUSPENDED: Final = "quintet.dev/suspended"
"""While it says `true`, the object and its children are left alone."""
RECONCILE_AT: Final = "quintet.dev/reconcile-at"
"""Any new value makes the controller look again now; what is written there is the time."""


def suspended(metadata: ObjectMeta) -> bool:
    """Whether the object is to be left alone; one that is being deleted never is."""
    return metadata.annotations.get(SUSPENDED) == "true" and not metadata.deleting
