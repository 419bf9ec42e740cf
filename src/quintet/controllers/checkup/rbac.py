"""Permissions of the Checkup controller, and what users need to write Checkups.

It may grant a checkup the permission to write results because it has that permission itself: it needs neither
`escalate` nor `bind`.
"""

from quintet.apis.checkup import CHECKUPS
from quintet.apis.checkup.types import RERUN, SCHEDULE_FIELDS
from quintet.apis.meta import Resource
from quintet.controllers.checkup.decide.desired import RBAC, RESULT_VERBS
from quintet.controllers.permissions import Permission, UserRequirement

_CHILD = ("get", "list", "watch", "create", "patch", "delete")
_PODS = Resource("", "v1", "Pod", "pods")

PERMISSIONS = (
    Permission("kiagnose.io", ("checkups",), ("list", "watch"), "to read the desired state"),
    Permission("kiagnose.io", ("checkups",), ("patch",), "to add and remove the finalizer", everywhere=True),
    Permission("kiagnose.io", ("checkups",), ("delete",), "to delete it after spec.ttlSecondsAfterFinished"),
    Permission("kiagnose.io", ("checkups/status",), ("patch",), "to report the status"),
    Permission(
        "kiagnose.io", ("checkups/finalizers",), ("update",), "to own children that block its deletion"
    ),
    Permission("", ("configmaps",), RESULT_VERBS, "granted to checkups, for one ConfigMap each"),
    Permission("", ("configmaps",), ("list", "watch", "create", "delete"), "to store results"),
    Permission(RBAC, ("roles", "rolebindings"), _CHILD, "to grant the permission to write results"),
    Permission("batch", ("jobs",), _CHILD, "the checkups themselves"),
    Permission("", ("pods",), ("list", "watch"), "to follow a checkup and see why it does not run"),
    Permission("", ("pods/log",), ("get",), "to save the log of a failed run"),
    Permission("", ("events",), ("list", "watch"), "to see why a pod does not start, and save its Events"),
    Permission("", ("serviceaccounts",), ("list", "watch"), "to wait for the ServiceAccount of a checkup"),
    Permission("events.k8s.io", ("events",), ("create", "patch"), "to record Events for users"),
)

USER_REQUIREMENTS = (
    UserRequirement(
        "checkup-ttl.quintet.dev",
        CHECKUPS,
        ("ttlSecondsAfterFinished",),
        "delete",
        CHECKUPS,
        "spec.ttlSecondsAfterFinished deletes the Checkup: you need permission to delete checkups here",
        when="oldObject != null",  # whoever creates a Checkup may limit its life
    ),
    # A Checkup runs an image as a ServiceAccount: it must not give users permissions that they do not have.
    UserRequirement(
        "checkup-account.quintet.dev",
        CHECKUPS,
        ("image", "serviceAccountName", "params", "retries", "schedule", *SCHEDULE_FIELDS),
        "create",
        _PODS,
        "a Checkup runs an image as spec.serviceAccountName: you need permission to use that ServiceAccount "
        "(verb use), or to create pods here",
        or_use="serviceAccountName",
        annotations=(RERUN,),
    ),
    # A pod template can mount every Secret of the namespace, so permission to use a ServiceAccount is not
    # enough.
    UserRequirement(
        "checkup-template.quintet.dev",
        CHECKUPS,
        ("template",),
        "create",
        _PODS,
        "spec.template decides what runs in pods: you need permission to create pods here",
    ),
)
