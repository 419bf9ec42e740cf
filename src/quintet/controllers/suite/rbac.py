"""The rights that the suite operator needs for itself, each with its reason.

What it needs beyond these follows from what it makes: `manifests.operator` adds the rights to make its
objects, and all that it grants by them.
"""

from quintet.apis.suite import QUINTETS
from quintet.controllers.rights import Right

RIGHTS = (
    Right(QUINTETS.group, ("quintets",), ("list", "watch"), "to see what is asked for"),
    Right(QUINTETS.group, ("quintets/status",), ("patch",), "to say what became of it"),
    Right(QUINTETS.group, ("quintets/finalizers",), ("update",), "to own what it makes"),
    Right("events.k8s.io", ("events",), ("create", "patch"), "to tell administrators what happened"),
)
