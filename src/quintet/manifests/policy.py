"""ValidatingAdmissionPolicies for the permissions that users must have to set some fields.

The API server enforces them by itself, with or without our webhooks.
"""

from collections.abc import Iterable

from quintet.apis.meta import JsonObject
from quintet.components import Component
from quintet.controllers.permissions import UserRequirement
from quintet.controllers.suite.decide.installation import Scope
from quintet.manifests.rbac import LABELS

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""A label that the API server sets on every Namespace."""
_API = "admissionregistration.k8s.io/v1"


def policies(requirements: Iterable[UserRequirement]) -> list[JsonObject]:
    """Return a ValidatingAdmissionPolicy and its binding for each requirement."""
    return [
        each
        for requirement in requirements
        for each in (_policy(requirement), _binding(requirement.name, "Deny"))
    ]


def warnings(idle: Iterable[Component], running: Iterable[Component], scope: Scope) -> list[JsonObject]:
    """Return policies that warn about writes to objects that no controller acts on.

    `idle` are the components without a controller. Without a policy, an object of theirs looks like any
    other, and its deletion waits for a finalizer that nobody removes.
    """
    made = []
    for component in idle:
        text = (
            f"no {component.name} controller runs: nothing acts on this object, and its deletion waits while "
            f"it has a finalizer; add {component.name} to spec.controllers of quintets/quintet"
        )
        made += _warning(f"{component.name}-without-controller.quintet.dev", component, text)
    for component in () if scope.everywhere else running:
        text = (
            f"the {component.name} controller does not watch this namespace: nothing acts on this object, "
            "and its deletion waits while it has a finalizer; add it to spec.namespaces of quintets/quintet"
        )
        selector = {"key": NAMESPACE_NAME, "operator": "NotIn", "values": list(scope.namespaces)}
        name = f"{component.name}-without-namespace.quintet.dev"
        made += _warning(name, component, text, {"namespaceSelector": {"matchExpressions": [selector]}})
    return made


def _warning(name: str, component: Component, text: str, where: JsonObject | None = None) -> list[JsonObject]:
    """Return a policy that warns about every write to the objects of a component, and its binding."""
    rules = [
        {
            "apiGroups": [kind.resource.group],
            "apiVersions": ["*"],
            "resources": [kind.resource.plural],
            "operations": ["CREATE", "UPDATE", "DELETE"],
        }
        for kind in component.kinds
    ]
    policy = {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name, "labels": dict(LABELS)},
        "spec": {
            "failurePolicy": "Ignore",
            "matchConstraints": {"resourceRules": rules, **(where or {})},
            "validations": [{"expression": "false", "message": text}],
        },
    }
    return [policy, _binding(name, "Warn")]


def _policy(requirement: UserRequirement) -> JsonObject:
    resource, target = requirement.resource, requirement.on
    rule = {
        "apiGroups": [resource.group],
        "apiVersions": [resource.version],
        "resources": [resource.plural],
        "operations": ["CREATE", "UPDATE"],
    }
    allowed = (
        f"authorizer.group('{target.group}').resource('{target.plural}')"
        f".namespace(object.metadata.namespace).check('{requirement.verb}').allowed()"
    )
    if requirement.or_use:
        allowed += (
            " || authorizer.group('').resource('serviceaccounts').namespace(object.metadata.namespace)"
            f".name(object.spec.{requirement.or_use}).check('use').allowed()"
        )
    if requirement.expression:
        allowed = requirement.expression
    changes = [*map(_has_changed, requirement.fields), *map(_has_new_annotation, requirement.annotations)]
    # Only changed fields are checked: users may still scale an object that somebody else created.
    conditions = [{"name": "changes-it", "expression": " || ".join(changes)}]
    if requirement.when:
        conditions.append({"name": "when", "expression": requirement.when})
    return {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": requirement.name, "labels": dict(LABELS)},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": conditions,
            "validations": [{"expression": allowed, "message": requirement.message, "reason": "Forbidden"}],
        },
    }


def _binding(policy: str, action: str) -> JsonObject:
    return {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": policy, "labels": dict(LABELS)},
        "spec": {"policyName": policy, "validationActions": [action]},
    }


def _has_changed(field: str) -> str:
    old = f"(oldObject == null ? optional.none() : oldObject.spec.?{field})"
    return f"object.spec.?{field} != {old}"


def _has_new_annotation(name: str) -> str:
    """Return whether an annotation was set or changed; removing it does nothing that needs a permission."""
    new = f"object.metadata.?annotations[?'{name}']"
    old = f"(oldObject == null ? optional.none() : oldObject.metadata.?annotations[?'{name}'])"
    return f"({new}.hasValue() && {new} != {old})"
