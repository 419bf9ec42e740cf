"""Roles from the rights that controllers declare: exactly those, no wildcard, no `escalate` or `bind`.

Called by `files`. Roles for people (view, edit) are made from the kinds themselves.
"""

from collections.abc import Iterable

from quintet.admission.registration import cluster_rules, namespace_rules
from quintet.admission.sources import SECRET_NAME
from quintet.apis.meta import JsonObject
from quintet.apis.resources import CustomResource
from quintet.components import LEASE, Component
from quintet.controllers.rights import Right

GROUP = "rbac.authorization.k8s.io"
SYSTEM_NAMESPACE = "quintet-system"
ACCOUNT = "quintet"
LABELS = {"app.kubernetes.io/name": "quintet", "app.kubernetes.io/part-of": "quintet"}
_VIEW = ("get", "list", "watch")
_EDIT = (*_VIEW, "create", "update", "patch", "delete", "deletecollection")


def operator_roles(components: Iterable[Component]) -> list[JsonObject]:
    """The account of the operator and everything that it may do."""
    rules = [_rule(right) for component in components for right in component.rights]
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    own = [
        {**lease, "resourceNames": [LEASE], "verbs": ["get", "update"]},
        {**lease, "verbs": ["create"]},
        *namespace_rules(SECRET_NAME),
    ]
    account = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM_NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(ACCOUNT, SYSTEM_NAMESPACE)},
        _role("ClusterRole", "quintet", [*rules, *cluster_rules()]),
        _binding("ClusterRoleBinding", "quintet", account),
        _role("Role", "quintet", own, SYSTEM_NAMESPACE),
        _binding("RoleBinding", "quintet", account, SYSTEM_NAMESPACE),
    ]


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


def _rule(right: Right) -> JsonObject:
    rule: JsonObject = {
        "apiGroups": [right.group],
        "resources": list(right.resources),
        "verbs": list(right.verbs),
    }
    return {**rule, "resourceNames": list(right.names)} if right.names else rule


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
