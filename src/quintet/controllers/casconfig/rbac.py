"""Permissions of the CASConfig controller, and what users need to write CASConfigs.

It has no permissions on targets: it impersonates the ServiceAccount `casconfig` of the config's namespace,
whose permissions the namespace's administrators decide.
"""

from quintet.apis.casconfig import CASCONFIGS, SERVICE_ACCOUNT
from quintet.apis.meta import Resource
from quintet.controllers.permissions import OptionalRole, Permission, UserRequirement

PERMISSIONS = (
    Permission("openebs.io", ("casconfigs",), ("list", "watch"), "to read the desired state"),
    Permission("openebs.io", ("casconfigs",), ("patch",), "to add and remove the finalizer", everywhere=True),
    Permission("openebs.io", ("casconfigs/status",), ("patch",), "to report the status"),
    Permission(
        "",
        ("serviceaccounts",),
        ("impersonate",),
        "to read and change targets with the permissions of that ServiceAccount, never with its own",
        names=(SERVICE_ACCOUNT,),
    ),
    Permission(
        "",
        ("namespaces",),
        ("get",),
        "to see whether a namespace is terminating, and its ServiceAccounts with it",
        everywhere=True,
    ),
    Permission("events.k8s.io", ("events",), ("create", "patch"), "to record Events for users"),
)

# Whoever may create pods in a namespace can act as any ServiceAccount there, so a config gives them no new
# permissions. Everybody else must not gain the ServiceAccount's permissions through a config.
USER_REQUIREMENTS = (
    UserRequirement(
        "casconfig-account.quintet.dev",
        CASCONFIGS,
        ("policies", "scope", "mode", "maxTargets"),
        "create",
        Resource("", "v1", "Pod", "pods"),
        f"a CASConfig acts as the ServiceAccount {SERVICE_ACCOUNT} of its namespace: you need permission to "
        "create pods here, which lets you act as that ServiceAccount",
    ),
)

_CHANGE = ("get", "list", "watch", "patch")
# For administrators to bind to the ServiceAccount `casconfig` of a namespace; it is not bound by default.
OPTIONAL_ROLES = (
    OptionalRole(
        "casconfig-workloads",
        (
            Permission(
                "apps", ("deployments", "statefulsets", "daemonsets"), _CHANGE, "to be changed by CASConfigs"
            ),
            Permission("batch", ("cronjobs",), _CHANGE, "to be changed by CASConfigs"),
            Permission("", ("configmaps",), ("list", "watch"), "to take values from"),
        ),
    ),
)
