"""Roles from the rights that controllers declare: exactly those, no wildcard, no `escalate` or `bind`.

Called by `files`. Roles for people (view, edit) are made from the kinds themselves.
"""

from collections.abc import Iterable

from quintet.admission.registration import cluster_rules, namespace_rules
from quintet.admission.sources import secret_name
from quintet.apis.meta import JsonObject
from quintet.apis.resources import CustomResource
from quintet.components import Component
from quintet.controllers.rights import Right

GROUP = "rbac.authorization.k8s.io"
SYSTEM_NAMESPACE = "quintet-system"
ACCOUNT = "quintet"
LABELS = {"app.kubernetes.io/name": "quintet", "app.kubernetes.io/part-of": "quintet"}
_VIEW = ("get", "list", "watch")
_EDIT = (*_VIEW, "create", "update", "patch", "delete", "deletecollection")


def operator_roles(components: Iterable[Component]) -> list[JsonObject]:
    """The account of the operator and everything that it may do."""
    rules = component_rules(components)
    return identity(ACCOUNT, SYSTEM_NAMESPACE, [*rules, *cluster_rules()], process_rules(ACCOUNT))


def component_rules(components: Iterable[Component]) -> list[JsonObject]:
    """What controllers may do, wherever their objects are."""
    return [rule(right) for component in components for right in component.rights]


def process_rules(name: str) -> list[JsonObject]:
    """What a process may do where it lives: lead, and keep its certificates."""
    return [*lease_rules(name), *namespace_rules(secret_name(name))]


def lease_rules(*names: str) -> list[JsonObject]:
    """To lead under one of these names."""
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    return [{**lease, "resourceNames": [*names], "verbs": ["get", "update"]}, {**lease, "verbs": ["create"]}]


def identity(name: str, namespace: str, cluster: list[JsonObject], own: list[JsonObject]) -> list[JsonObject]:
    """An account and what it may do, in the whole cluster and in its own namespace."""
    account = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(name, namespace)},
        _role("ClusterRole", name, cluster),
        _binding("ClusterRoleBinding", name, account),
        _role("Role", name, own, namespace),
        _binding("RoleBinding", name, account, namespace),
    ]


def offered_roles(components: Iterable[Component]) -> list[JsonObject]:
    """Roles that nobody has until somebody binds them to the operator in a namespace."""
    offers = [offer for component in components for offer in component.offers]
    return [_role("ClusterRole", offer.name, [rule(right) for right in offer.rights]) for offer in offers]


def user_roles(declared: Iterable[CustomResource]) -> list[JsonObject]:
    """What people may do with a kind; the cluster's own view, edit and admin roles take them in."""
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
    """All that an editor may, and to make other objects belong to one of the kind; for the role admin."""
    roles = []
    for editor in user_roles(declared)[1::2]:
        first = editor["rules"][0]
        owning = {**first, "resources": [f"{first['resources'][0]}/finalizers"], "verbs": ["update"]}
        name = editor["metadata"]["name"].removesuffix("-editor")
        made = _role("ClusterRole", f"{name}-admin", [*editor["rules"], owning])
        made["metadata"]["labels"] |= {f"{GROUP}/aggregate-to-admin": "true"}
        roles.append(made)
    return roles


def unaggregated(role: JsonObject) -> JsonObject:
    """The same role, for those alone who are bound to it by name."""
    labels = {
        key: value for key, value in role["metadata"]["labels"].items() if not key.startswith(f"{GROUP}/")
    }
    return {**role, "metadata": {**role["metadata"], "labels": labels}}


def rule(right: Right) -> JsonObject:
    """One declared right as a role says it."""
    made: JsonObject = {
        "apiGroups": [right.group],
        "resources": list(right.resources),
        "verbs": list(right.verbs),
    }
    return {**made, "resourceNames": list(right.names)} if right.names else made


def _role(kind: str, name: str, rules: list[JsonObject], namespace: str = "") -> JsonObject:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": _metadata(name, namespace), "rules": rules}


def _binding(kind: str, name: str, account: JsonObject, namespace: str = "") -> JsonObject:
    role = "ClusterRole" if kind == "ClusterRoleBinding" else "Role"
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": _metadata(name, namespace),
        "roleRef": {"apiGroup": GROUP, "kind": role, "name": name},
        "subjects": [account],
    }


def _metadata(name: str, namespace: str = "") -> JsonObject:
    metadata: JsonObject = {"name": name, "labels": dict(LABELS)}
    return {**metadata, "namespace": namespace} if namespace else metadata
