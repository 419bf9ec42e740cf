"""Permissions of the JsonServer controller, and what users need to write JsonServers."""

from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import Resource
from quintet.controllers.permissions import Permission, UserRequirement

PERMISSIONS = (
    Permission("example.com", ("jsonservers",), ("list", "watch"), "to read the desired state"),
    Permission(
        "example.com", ("jsonservers",), ("patch",), "to add and remove the finalizer", everywhere=True
    ),
    Permission("example.com", ("jsonservers/status",), ("patch",), "to report the status"),
    Permission(
        "example.com", ("jsonservers/finalizers",), ("update",), "to own children that block its deletion"
    ),
    Permission(
        "", ("configmaps", "services"), ("get", "list", "watch", "create", "patch", "delete"), "the children"
    ),
    Permission(
        "apps", ("deployments",), ("get", "list", "watch", "create", "patch", "delete"), "the children"
    ),
    Permission("", ("pods",), ("list", "watch"), "to see why pods do not run"),
    Permission("", ("events",), ("list", "watch"), "to see why a volume of a pod cannot be mounted"),
    Permission("events.k8s.io", ("events",), ("create", "patch"), "to record Events for users"),
)

# A JsonServer decides what runs in pods: it must not give users permissions that they do not have.
USER_REQUIREMENTS = (
    UserRequirement(
        "jsonserver-pods.quintet.dev",
        JSONSERVERS,
        ("image", "template", "casConfig"),
        "create",
        Resource("", "v1", "Pod", "pods"),
        "spec.image, spec.template and spec.casConfig decide what runs in pods: you need permission to "
        "create pods here",
    ),
    UserRequirement(
        "jsonserver-service.quintet.dev",
        JSONSERVERS,
        ("service",),
        "create",
        Resource("", "v1", "Service", "services"),
        "spec.service decides who can reach the pods: you need permission to create services here",
    ),
)
