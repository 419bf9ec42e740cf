"""ValidatingAdmissionPolicies for the permissions that users must have to set some fields.

The API server enforces them by itself, with or without our webhooks.
"""

from collections.abc import Iterable

from quintet.apis.meta import JsonObject
from quintet.controllers.permissions import UserRequirement
from quintet.manifests.rbac import LABELS

_API = "admissionregistration.k8s.io/v1"


def policies(requirements: Iterable[UserRequirement]) -> list[JsonObject]:
    """Return a ValidatingAdmissionPolicy and its binding for each requirement."""
    return [each for requirement in requirements for each in (_policy(requirement), _binding(requirement))]


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


def _binding(requirement: UserRequirement) -> JsonObject:
    return {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": requirement.name, "labels": dict(LABELS)},
        "spec": {"policyName": requirement.name, "validationActions": ["Deny"]},
    }


def _has_changed(field: str) -> str:
    old = f"(oldObject == null ? optional.none() : oldObject.spec.?{field})"
    return f"object.spec.?{field} != {old}"


def _has_new_annotation(name: str) -> str:
    """Return whether an annotation was set or changed; removing it does nothing that needs a permission."""
    new = f"object.metadata.?annotations[?'{name}']"
    old = f"(oldObject == null ? optional.none() : oldObject.metadata.?annotations[?'{name}'])"
    return f"({new}.hasValue() && {new} != {old})"
