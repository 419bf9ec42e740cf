"""Permissions of the Subscription controller.

The EventingBackend controller grants dispatchers theirs. Users need no other permissions: a sink is a Service
of their own namespace.
"""

from quintet.controllers.permissions import Permission

PERMISSIONS = (
    Permission("eventing.kyma-project.io", ("subscriptions",), ("list", "watch"), "to see what is asked for"),
    Permission("eventing.kyma-project.io", ("subscriptions",), ("patch",), "to add and remove the finalizer"),
    Permission("eventing.kyma-project.io", ("subscriptions/status",), ("patch",), "to say what became of it"),
    Permission("eventing.kyma-project.io", ("eventingbackends",), ("list", "watch"), "to know who delivers"),
    Permission("", ("services",), ("list", "watch"), "to say that a sink is not there"),
    Permission("events.k8s.io", ("events",), ("create", "patch"), "to tell users what happened"),
)
