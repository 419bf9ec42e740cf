"""Permissions of the suite operator for its own kind.

`manifests.operator` adds the permissions to manage the objects of an installation, and everything that it
grants to controllers.
"""

from quintet.apis.suite import QUINTETS
from quintet.controllers.permissions import Permission

PERMISSIONS = (
    Permission(QUINTETS.group, ("quintets",), ("list", "watch"), "to read the desired state"),
    Permission(QUINTETS.group, ("quintets/status",), ("patch",), "to report the status"),
    Permission(QUINTETS.group, ("quintets/finalizers",), ("update",), "to own what it makes"),
    Permission("", ("namespaces",), ("list", "watch"), "to find the namespaces that the controllers watch"),
    Permission("events.k8s.io", ("events",), ("create", "patch"), "to record Events for administrators"),
)
