"""Rules that the API server keeps by itself, with or without our webhooks. Called by `files`.

A JsonServer decides what runs in pods. Whoever may write JsonServers but not pods must not
gain that right through us, so `image` and `template` take the right to create pods.
"""

from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import JsonObject
from quintet.manifests.rbac import LABELS

NAME = "jsonserver-pods.quintet.dev"
MESSAGE = "spec.image and spec.template decide what runs in pods: you need the right to create pods here"


def policies() -> list[JsonObject]:
    """The policy and its binding."""
    metadata = {"name": NAME, "labels": dict(LABELS)}
    group = "admissionregistration.k8s.io"
    rule = {
        "apiGroups": [JSONSERVERS.group],
        "apiVersions": [JSONSERVERS.version],
        "resources": [JSONSERVERS.plural],
        "operations": ["CREATE", "UPDATE"],
    }
    policy = {
        "apiVersion": f"{group}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            # Only what changes is asked about, so that nobody is kept from scaling what others made.
            "matchConditions": [
                {"name": "changes-the-pods", "expression": f"{_changed('image')} || {_changed('template')}"}
            ],
            "validations": [
                {
                    "expression": "authorizer.group('').resource('pods').namespace(object.metadata.namespace)"
                    ".check('create').allowed()",
                    "message": MESSAGE,
                    "reason": "Forbidden",
                }
            ],
        },
    }
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {"policyName": NAME, "validationActions": ["Deny"]},
    }
    return [policy, binding]


def _changed(field: str) -> str:
    old = f"(oldObject == null ? optional.none() : oldObject.spec.?{field})"
    return f"object.spec.?{field} != {old}"
