"""The rights that the JsonServer controller needs, each with its reason."""

from quintet.controllers.rights import Right

RIGHTS = (
    Right("example.com", ("jsonservers",), ("get", "list", "watch"), "to see what is asked for"),
    Right("example.com", ("jsonservers",), ("patch",), "to add and remove the finalizer"),
    Right("example.com", ("jsonservers/status",), ("patch",), "to say what became of it"),
    Right("example.com", ("jsonservers/finalizers",), ("update",), "to own children that block its deletion"),
    Right(
        "", ("configmaps", "services"), ("get", "list", "watch", "create", "patch", "delete"), "the children"
    ),
    Right("apps", ("deployments",), ("get", "list", "watch", "create", "patch", "delete"), "the children"),
    Right("events.k8s.io", ("events",), ("create", "patch"), "to tell users what happened"),
)
