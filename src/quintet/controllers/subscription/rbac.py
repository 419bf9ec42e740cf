"""Permissions of the Subscription controller.

The EventingBackend controller grants dispatchers theirs. Users need no other permissions: a sink is a Service
of their own namespace.
"""

from quintet.controllers.permissions import Permission

_GROUP = "eventing.kyma-project.io"

PERMISSIONS = (
    Permission(_GROUP, ("subscriptions",), ("list", "watch"), "to read the desired state"),
    Permission(_GROUP, ("subscriptions",), ("patch",), "to add and remove the finalizer", everywhere=True),
    Permission(_GROUP, ("subscriptions/status",), ("patch",), "to report the status"),
    Permission(_GROUP, ("eventingbackends",), ("list", "watch"), "to find the backend of a Subscription"),
    Permission("", ("services",), ("list", "watch"), "to see whether a sink exists"),
    Permission("events.k8s.io", ("events",), ("create", "patch"), "to record Events for users"),
)
