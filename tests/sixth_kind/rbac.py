"""Permissions of the Greeting controller."""

from quintet.controllers.permissions import Permission
from sixth_kind.types import GREETINGS

PERMISSIONS = (
    Permission(GREETINGS.group, ("greetings",), ("list", "watch", "patch"), "to read Greetings, finalizer"),
    Permission(GREETINGS.group, ("greetings/status",), ("patch",), "to write the status"),
    Permission(GREETINGS.group, ("greetings/finalizers",), ("update",), "to own ConfigMaps"),
    Permission("", ("configmaps",), ("get", "list", "watch", "create", "patch", "delete"), "the children"),
    Permission("events.k8s.io", ("events",), ("create", "patch"), "to record Events"),
)
