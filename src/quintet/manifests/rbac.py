"""Roles with exactly the permissions that controllers declare: no wildcard, no `escalate`, no `bind`."""

from collections.abc import Iterable

from quintet.admission.registration import cluster_rules, namespace_rules
from quintet.admission.sources import secret_name
from quintet.apis.meta import JsonObject
from quintet.apis.resources import CustomResource
from quintet.components import Component
from quintet.controllers.permissions import Permission

GROUP = "rbac.authorization.k8s.io"
SYSTEM_NAMESPACE = "quintet-system"
SERVICE_ACCOUNT = "quintet"
METRICS_READER = "quintet-metrics-reader"
ACCESS_REVIEWS = (
    Permission(
        "authentication.k8s.io",
        ("tokenreviews",),
        ("create",),
        "to learn whose token a client of its metrics sends; not with `spec.metrics: Plain`",
    ),
    Permission(
        "authorization.k8s.io",
        ("subjectaccessreviews",),
        ("create",),
        "to ask whether this user may get the path `/metrics`; not with `spec.metrics: Plain`",
    ),
)
LABELS = {"app.kubernetes.io/name": "quintet", "app.kubernetes.io/part-of": "quintet"}
_VIEW = ("get", "list", "watch")
_EDIT = (*_VIEW, "create", "update", "patch", "delete", "deletecollection")


def operator_roles(components: Iterable[Component]) -> list[JsonObject]:
    """Return the ServiceAccount of a process with all controllers, its roles and their bindings."""
    rules = [*component_rules(components), *cluster_rules(), *access_review_rules()]
    return service_account_with_roles(
        SERVICE_ACCOUNT, SYSTEM_NAMESPACE, rules, process_rules(SERVICE_ACCOUNT)
    )


def component_rules(components: Iterable[Component]) -> list[JsonObject]:
    """Return the rules of the ClusterRole that these controllers need to watch all namespaces."""
    return [policy_rule(permission) for component in components for permission in component.permissions]


def scoped_rules(components: Iterable[Component]) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return the rules of the ClusterRole and of the Roles of controllers that watch some namespaces."""
    declared = [permission for component in components for permission in component.permissions]
    cluster = [policy_rule(each) for each in declared if each.everywhere]
    # To remove a finalizer in a namespace that is being deleted: its Roles may be deleted first.
    cluster.append({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]})
    return cluster, [policy_rule(each) for each in declared if not each.everywhere]


def access_review_rules() -> list[JsonObject]:
    """Return the rules of the ClusterRole of a process that serves metrics to authorized clients."""
    return [policy_rule(permission) for permission in ACCESS_REVIEWS]


def process_rules(name: str) -> list[JsonObject]:
    """Return the rules of the Role in a process's own namespace: for its Lease and its certificates."""
    return [*lease_rules(name), *namespace_rules(secret_name(name))]


def lease_rules(*names: str) -> list[JsonObject]:
    """Return the rules for leader election with Leases of these names."""
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    return [{**lease, "resourceNames": [*names], "verbs": ["get", "update"]}, {**lease, "verbs": ["create"]}]


def service_account_with_roles(
    name: str, namespace: str, cluster: list[JsonObject], own: list[JsonObject]
) -> list[JsonObject]:
    """Return a ServiceAccount with a ClusterRole, a Role in its own namespace, and their bindings."""
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(name, namespace)},
        _role("ClusterRole", name, cluster),
        _binding("ClusterRoleBinding", name, subject),
        _role("Role", name, own, namespace),
        _binding("RoleBinding", name, subject, namespace),
    ]


def namespace_roles(
    name: str, account: JsonObject, namespaces: Iterable[str], rules: list[JsonObject]
) -> list[JsonObject]:
    """Return a Role with its binding in each of the namespaces that a process watches."""
    role = f"{name}-namespaced"
    subject = {
        "kind": account["kind"],
        "name": account["metadata"]["name"],
        "namespace": account["metadata"]["namespace"],
    }
    return [
        body
        for namespace in namespaces
        for body in (
            _role("Role", role, rules, namespace),
            _binding("RoleBinding", role, subject, namespace),
        )
    ]


def optional_roles(components: Iterable[Component]) -> list[JsonObject]:
    """Return the ClusterRoles that administrators may bind to the operator in a namespace."""
    roles = [role for component in components for role in component.optional_roles]
    return [
        _role("ClusterRole", role.name, [policy_rule(each) for each in role.permissions]) for role in roles
    ]


def metrics_reader_role() -> JsonObject:
    """Return the ClusterRole that administrators may bind to Prometheus."""
    return _role("ClusterRole", METRICS_READER, [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}])


def user_roles(declared: Iterable[CustomResource]) -> list[JsonObject]:
    """Return a viewer and an editor role per kind, aggregated to the cluster roles view, edit and admin."""
    roles = []
    for each in declared:
        resource, name = each.resource, each.resource.kind.lower()
        for role, verbs, targets in (("viewer", _VIEW, ["view"]), ("editor", _EDIT, ["edit", "admin"])):
            rule = {"apiGroups": [resource.group], "resources": [resource.plural], "verbs": list(verbs)}
            status = {
                "apiGroups": [resource.group],
                "resources": [f"{resource.plural}/status"],
                "verbs": ["get"],
            }
            rules: list[JsonObject] = [rule, status]
            if each.scale is not None and role == "editor":
                scale = f"{resource.plural}/scale"
                rules.append(
                    {"apiGroups": [resource.group], "resources": [scale], "verbs": ["get", "update", "patch"]}
                )
            made = _role("ClusterRole", f"{name}-{role}", rules)
            made["metadata"]["labels"] |= {f"{GROUP}/aggregate-to-{target}": "true" for target in targets}
            roles.append(made)
    return roles


def admin_roles(declared: Iterable[CustomResource]) -> list[JsonObject]:
    """Return an admin role per kind: the editor's rules and `update` on `finalizers`."""
    roles = []
    for editor in user_roles(declared)[1::2]:
        first = editor["rules"][0]
        finalizers = {**first, "resources": [f"{first['resources'][0]}/finalizers"], "verbs": ["update"]}
        name = editor["metadata"]["name"].removesuffix("-editor")
        made = _role("ClusterRole", f"{name}-admin", [*editor["rules"], finalizers])
        made["metadata"]["labels"] |= {f"{GROUP}/aggregate-to-admin": "true"}
        roles.append(made)
    return roles


def without_aggregation(role: JsonObject) -> JsonObject:
    """Return the role without its aggregation labels: only explicit bindings grant it."""
    labels = {
        key: value for key, value in role["metadata"]["labels"].items() if not key.startswith(f"{GROUP}/")
    }
    return {**role, "metadata": {**role["metadata"], "labels": labels}}


def policy_rule(permission: Permission) -> JsonObject:
    """Return the rule of a Role that grants the permission."""
    rule: JsonObject = {
        "apiGroups": [permission.group],
        "resources": list(permission.resources),
        "verbs": list(permission.verbs),
    }
    return {**rule, "resourceNames": list(permission.names)} if permission.names else rule


def _role(kind: str, name: str, rules: list[JsonObject], namespace: str = "") -> JsonObject:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": _metadata(name, namespace), "rules": rules}


def _binding(kind: str, name: str, subject: JsonObject, namespace: str = "") -> JsonObject:
    role = "ClusterRole" if kind == "ClusterRoleBinding" else "Role"
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": _metadata(name, namespace),
        "roleRef": {"apiGroup": GROUP, "kind": role, "name": name},
        "subjects": [subject],
    }


def _metadata(name: str, namespace: str = "") -> JsonObject:
    metadata: JsonObject = {"name": name, "labels": dict(LABELS)}
    return {**metadata, "namespace": namespace} if namespace else metadata
