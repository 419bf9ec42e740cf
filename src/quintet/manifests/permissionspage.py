"""The documentation page that lists every declared permission with its reason."""

from collections.abc import Iterable, Sequence

from quintet.components import Component
from quintet.controllers.checkup.decide.desired import RESULT_VERBS
from quintet.controllers.eventingbackend.decide.desired import DISPATCHER_VERBS, EVENT_VERBS
from quintet.controllers.permissions import Permission
from quintet.controllers.suite.rbac import PERMISSIONS
from quintet.manifests.catalog import HEADER
from quintet.manifests.rbac import ACCESS_REVIEWS, METRICS_READER

INTRODUCTION = """\
# Permissions

Every ServiceAccount of Quintet, every permission that it has, and the reason for it. The roles are generated
from these declarations (`src/quintet/controllers/<kind>/rbac.py`). No role contains a wildcard, `escalate` or
`bind`, and no role grants access to the Secrets of the whole cluster.

**Every permission is needed.** In tests every controller runs with its own ServiceAccount and the shipped
role, on an API server with RBAC: a missing permission fails a test. `make test-all` also records audit logs
and compares the requests with the roles. It prints how many requests needed each permission, fails if a
permission was never needed, and lists every request that was denied. Two groups of permissions never appear
in requests: those that a ServiceAccount holds only because it grants them to others, and `update` on
`finalizers`, which the API server checks when a child refers to its owner (a test removes this permission
and expects the API server to reject the child).
"""
_PROCESS = (
    Permission(
        "coordination.k8s.io",
        ("leases",),
        ("get", "update", "create"),
        "leader election; only its own Lease, in its own namespace",
    ),
    Permission(
        "",
        ("secrets",),
        ("get", "patch", "create"),
        "webhook certificates; get and patch only its own Secret, in its own namespace",
    ),
    Permission(
        "admissionregistration.k8s.io",
        ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        ("get", "patch"),
        "to register its webhooks; only its own configurations; `create` only without the suite operator",
    ),
    *ACCESS_REVIEWS,
)
_DISPATCHER = (
    Permission(
        "eventing.kyma-project.io",
        ("subscriptions",),
        DISPATCHER_VERBS,
        "to read which events are delivered to which sinks",
    ),
    Permission("events.k8s.io", ("events",), EVENT_VERBS, "to report CloudEvents that cannot be delivered"),
)
_RUN = (
    Permission("", ("configmaps",), RESULT_VERBS, "to write its results; only the ConfigMap of this run"),
)
_OPERATOR = """\
In addition it holds every permission that it grants to the controllers above, and may manage the objects of
an installation: `list`, `watch` and `create` for their types, `get`, `patch` and `delete` for exactly their
names. It may not delete CRDs.
"""


def permissions_page(components: Sequence[Component]) -> str:
    """Return the page as Markdown."""
    parts = [_section(f"Controller {each.name}", each.permissions) for each in components]
    optional = [
        _section(f"Optional role {role.name}", role.permissions, _OPTIONAL)
        for component in components
        for role in component.optional_roles
    ]
    return "\n".join(
        [
            HEADER + INTRODUCTION,
            *parts,
            _section("Every process with controllers", _PROCESS),
            _section(
                "Dispatchers",
                _DISPATCHER,
                "In the namespace of their backend. Publisher proxies have no ServiceAccount token.\n",
            ),
            _section(
                "A run of a checkup",
                _RUN,
                "For the ServiceAccount that the Checkup names, in its namespace.\n",
            ),
            _section("Suite operator", PERMISSIONS, _OPERATOR),
            *optional,
            _USERS.format(metrics_reader=METRICS_READER),
        ]
    )


_OPTIONAL = "Nobody has it until an administrator binds it in a namespace.\n"
_USERS = """\
## Users

For each kind there are three ClusterRoles: `KIND-viewer` (`get`, `list`, `watch`), `KIND-editor` (all verbs;
only `get` on the status) and `KIND-admin` (also `update` on `finalizers`). They are aggregated to the cluster
roles `view`, `edit` and `admin`; of the Quintet only the viewer is, because only cluster administrators may
change it. `{metrics_reader}` allows to read the metrics of every process; nobody has it until an
administrator binds it. Some fields need [permissions of their own](../SECURITY.md#trust-model).
"""


def _section(title: str, permissions: Iterable[Permission], note: str = "") -> str:
    rows = "\n".join(map(_row, permissions))
    return (
        f"## {title}\n\n{note}{chr(10) if note else ''}| verbs | resources | why |\n|---|---|---|\n{rows}\n"
    )


def _row(permission: Permission) -> str:
    names = f" named {', '.join(f'`{name}`' for name in permission.names)}" if permission.names else ""
    resources = ", ".join(f"`{_qualified_name(permission.group, each)}`" for each in permission.resources)
    return f"| {', '.join(permission.verbs)} | {resources}{names} | {permission.why} |"


def _qualified_name(group: str, resource: str) -> str:
    kind, slash, part = resource.partition("/")
    return f"{kind}.{group}{slash}{part}" if group else resource
