"""Who asked the API server for what: its audit log, if a cluster is to keep one.

Called by `controlplane`. What Kubernetes itself and the administrator do is left out, so what is left
are the requests of accounts and of people, one line of JSON each, without the content of objects.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LOG = "audit.log"
_POLICY = "audit-policy.json"
_OF_KUBERNETES = ("system:masters", "system:nodes", "system:serviceaccounts:kube-system")
_COMPONENTS = (
    "system:apiserver",
    "system:kube-controller-manager",
    "system:kube-scheduler",
    "system:kube-proxy",
)
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    # A request is worth one line, and how it was answered is known only afterwards.
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": [*_OF_KUBERNETES]},
        {"level": "None", "users": [*_COMPONENTS]},
        {"level": "Metadata"},
    ],
}


def write_policy(directory: Path) -> None:
    """Write the policy."""
    (directory / _POLICY).write_text(json.dumps(POLICY, indent=2))


def is_enabled(directory: Path) -> bool:
    """Whether the cluster in this folder keeps one."""
    return (directory / _POLICY).exists()


def apiserver_flags(directory: Path) -> dict[str, object]:
    """What the API server has to be told."""
    # Written before the answer is sent, so nothing is missing after a crash.
    return {
        "audit-policy-file": directory / _POLICY,
        "audit-log-path": directory / LOG,
        "audit-log-mode": "blocking",
    }
