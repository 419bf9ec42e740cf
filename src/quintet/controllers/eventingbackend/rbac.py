"""Permissions of the EventingBackend controller, and what users need to write EventingBackends.

It may grant dispatchers their permissions because it has the same ones itself. It has no permission on
Secrets: administrators may bind a role of `OPTIONAL_ROLES` to it in their namespace.
"""

from quintet.apis.eventingbackend import CATALOG, EVENTINGBACKENDS
from quintet.controllers.eventingbackend.decide.desired import DISPATCHER_VERBS, EVENT_VERBS, RBAC
from quintet.controllers.eventingbackend.drivers.secrets import ROLE, SECRETS
from quintet.controllers.permissions import OptionalRole, Permission, UserRequirement

_CHILD = ("get", "list", "watch", "create", "patch", "delete")
_GROUP = EVENTINGBACKENDS.group

PERMISSIONS = (
    Permission(_GROUP, ("eventingbackends",), ("list", "watch"), "to read the desired state"),
    Permission(_GROUP, ("eventingbackends",), ("patch",), "to add and remove the finalizer", everywhere=True),
    Permission(_GROUP, ("eventingbackends/status",), ("patch",), "to report the status"),
    Permission(
        _GROUP, ("eventingbackends/finalizers",), ("update",), "to own children that block its deletion"
    ),
    Permission(
        _GROUP, ("subscriptions",), DISPATCHER_VERBS, "to find the users of a backend; granted to dispatchers"
    ),
    Permission(
        "events.k8s.io", ("events",), EVENT_VERBS, "to record Events for users; granted to dispatchers"
    ),
    Permission("apps", ("deployments",), _CHILD, "publishers and dispatchers"),
    Permission("apps", ("statefulsets",), _CHILD, "NATS servers of backends without a url"),
    Permission(
        "", ("services", "serviceaccounts"), _CHILD, "addresses, and the ServiceAccounts of dispatchers"
    ),
    Permission(RBAC, ("roles", "rolebindings"), _CHILD, "permissions of dispatchers"),
    Permission(
        "policy", ("poddisruptionbudgets",), _CHILD, "to limit evictions to one pod of a part at a time"
    ),
    Permission("networking.k8s.io", ("networkpolicies",), _CHILD, "to restrict access to the NATS servers"),
    Permission(
        "autoscaling",
        ("horizontalpodautoscalers",),
        ("list", "watch"),
        "to let an autoscaler set the replicas",
    ),
    Permission(
        "discovery.k8s.io",
        ("endpointslices",),
        ("get",),
        "to refuse backends that point at the API server",
        names=("kubernetes",),
        everywhere=True,  # in the namespace `default`
    ),
)

OPTIONAL_ROLES = (
    OptionalRole(
        ROLE,
        (Permission("", (SECRETS.plural,), ("get",), "to log in to the servers of backends in a namespace"),),
    ),
)

_KEYS = sorted({key.name for kind in CATALOG.values() for key in kind.keys if key.names_secret})
_MAY = (
    "authorizer.group('').resource('secrets').namespace(object.metadata.namespace).name(string(entry[key]))"
    ".check('{verb}').allowed()"
)

# A backend sends a Secret to a server, and its config names both. Whoever changes the config, even only the
# server, must have permission to read that Secret.
USER_REQUIREMENTS = (
    UserRequirement(
        "eventingbackend-secrets.quintet.dev",
        EVENTINGBACKENDS,
        ("type", "config"),
        "get",
        SECRETS,
        "spec.config names a Secret: you need permission to get that Secret, or to use it (verb use)",
        expression="!has(object.spec.config) || object.spec.config.all(entry, "
        f"{_KEYS}.all(key, !(key in entry) || type(entry[key]) != string || {_MAY.format(verb='get')} "
        f"|| {_MAY.format(verb='use')}))",
    ),
)
