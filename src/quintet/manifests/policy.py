"""What users must be allowed, kept by the API server itself, with or without our webhooks.

Called by `files`: demands of kinds → ValidatingAdmissionPolicies.
"""

from collections.abc import Iterable

from quintet.apis.meta import JsonObject
from quintet.controllers.rights import Demand
from quintet.manifests.rbac import LABELS

_API = "admissionregistration.k8s.io/v1"


def policies(demands: Iterable[Demand]) -> list[JsonObject]:
    """A policy and its binding for each demand."""
    return [made for demand in demands for made in (_policy(demand), _binding(demand))]


def _policy(demand: Demand) -> JsonObject:
    resource, wanted = demand.resource, demand.on
    rule = {
        "apiGroups": [resource.group],
        "apiVersions": [resource.version],
        "resources": [resource.plural],
        "operations": ["CREATE", "UPDATE"],
    }
    allowed = (
        f"authorizer.group('{wanted.group}').resource('{wanted.plural}')"
        f".namespace(object.metadata.namespace).check('{demand.verb}').allowed()"
    )
    if demand.or_use:
        allowed += (
            " || authorizer.group('').resource('serviceaccounts').namespace(object.metadata.namespace)"
            f".name(object.spec.{demand.or_use}).check('use').allowed()"
        )
    if demand.expression:
        allowed = demand.expression
    # Only what changes is asked about, so that nobody is kept from scaling what others made.
    conditions = [{"name": "changes-it", "expression": " || ".join(map(_changed, demand.fields))}]
    if demand.when:
        conditions.append({"name": "when", "expression": demand.when})
    return {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": demand.name, "labels": dict(LABELS)},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": conditions,
            "validations": [{"expression": allowed, "message": demand.message, "reason": "Forbidden"}],
        },
    }


def _binding(demand: Demand) -> JsonObject:
    return {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": demand.name, "labels": dict(LABELS)},
        "spec": {"policyName": demand.name, "validationActions": ["Deny"]},
    }


def _changed(field: str) -> str:
    old = f"(oldObject == null ? optional.none() : oldObject.spec.?{field})"
    return f"object.spec.?{field} != {old}"
