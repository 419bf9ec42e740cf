"""Permissions of the Subscription controller.

The EventingBackend controller grants dispatchers theirs. Users need no other permissions: a sink is a Service
of their own namespace.
"""

from quintet.controllers.permissions import Permission

PERMISSIONS = (
    Permission(
        "eventing.kyma-project.io", ("subscriptions",), ("list", "watch"), "to read the desired state"
    ),
    Permission("eventing.kyma-project.io", ("subscriptions",), ("patch",), "to add and remove the finalizer"),
    Permission("eventing.kyma-project.io", ("subscriptions/status",), ("patch",), "to report the status"),
    Permission(
        "eventing.kyma-project.io",
        ("eventingbackends",),
        ("list", "watch"),
        "to find the backend of a Subscription",
    ),
    Permission("", ("services",), ("list", "watch"), "to see whether a sink exists"),
    Permission("events.k8s.io", ("events",), ("create", "patch"), "to record Events for users"),
)
