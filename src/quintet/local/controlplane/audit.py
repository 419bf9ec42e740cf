"""The API server's audit log, for clusters that are started with one.

The policy omits requests of Kubernetes itself and of the administrator; it logs the metadata of every other
request in one line of JSON, without the content of objects.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LOG = "audit.log"
_POLICY = "audit-policy.json"
_SYSTEM_GROUPS = ("system:masters", "system:nodes", "system:serviceaccounts:kube-system")
_SYSTEM_USERS = (
    "system:apiserver",
    "system:kube-controller-manager",
    "system:kube-scheduler",
    "system:kube-proxy",
)
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    # One line per request; the response is known only at the later stages.
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": [*_SYSTEM_GROUPS]},
        {"level": "None", "users": [*_SYSTEM_USERS]},
        {"level": "Metadata"},
    ],
}


def write_policy(directory: Path) -> None:
    """Write the audit policy into the cluster's folder."""
    (directory / _POLICY).write_text(json.dumps(POLICY, indent=2))


def is_enabled(directory: Path) -> bool:
    """Return whether the cluster in this folder has an audit log."""
    return (directory / _POLICY).exists()


def apiserver_flags(directory: Path) -> dict[str, object]:
    """Return the API server's flags for the audit log."""
    # Blocking: the line is written before the response is sent, so a crash loses none.
    return {
        "audit-policy-file": directory / _POLICY,
        "audit-log-path": directory / LOG,
        "audit-log-mode": "blocking",
    }
