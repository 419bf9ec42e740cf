"""The rights that the suite operator needs for itself, each with its reason.

What it needs beyond these follows from what it makes: `manifests.operator` adds the rights to make its
objects, and all that it grants by them.
"""

from quintet.apis.suite import QUINTETS
from quintet.controllers.permissions import Permission

PERMISSIONS = (
    Permission(QUINTETS.group, ("quintets",), ("list", "watch"), "to see what is asked for"),
    Permission(QUINTETS.group, ("quintets/status",), ("patch",), "to say what became of it"),
    Permission(QUINTETS.group, ("quintets/finalizers",), ("update",), "to own what it makes"),
    Permission("events.k8s.io", ("events",), ("create", "patch"), "to tell administrators what happened"),
)
