"""Manifests of StatefulClusters: the StatefulSet example of the Kubernetes documentation and variants of it."""

import copy
from typing import Any

from quintet.apis.meta import JsonObject
from quintet.apis.statefulcluster import STATEFULCLUSTERS

WEB: JsonObject = {
    "selector": {"matchLabels": {"app": "nginx"}},
    "serviceName": "nginx",
    "replicas": 3,
    "minReadySeconds": 10,
    "template": {
        "metadata": {"labels": {"app": "nginx"}},
        "spec": {
            "terminationGracePeriodSeconds": 10,
            "containers": [
                {
                    "name": "nginx",
                    "image": "registry.k8s.io/nginx-slim:0.24",
                    "ports": [{"containerPort": 80, "name": "web"}],
                    "volumeMounts": [{"name": "www", "mountPath": "/usr/share/nginx/html"}],
                }
            ],
        },
    },
    "volumeClaimTemplates": [
        {
            "metadata": {"name": "www"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "my-storage-class",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    ],
}
"""The spec of the StatefulSet `web`, as the Kubernetes documentation shows it."""


def a_cluster(name: str = "web", *, annotations: dict[str, str] | None = None, **spec: Any) -> JsonObject:
    """The StatefulCluster `web` with other values in its spec; None removes a field."""
    metadata: JsonObject = {"name": name}
    if annotations:
        metadata["annotations"] = annotations
    made = {key: value for key, value in (copy.deepcopy(WEB) | spec).items() if value is not None}
    return {
        "apiVersion": STATEFULCLUSTERS.api_version,
        "kind": STATEFULCLUSTERS.kind,
        "metadata": metadata,
        "spec": made,
    }


def with_value(body: JsonObject, path: str, value: Any) -> JsonObject:
    """Return a copy with the value at a dotted path replaced; None removes it."""
    made = copy.deepcopy(body)
    *way, last = path.split(".")
    target: Any = made
    for step in way:
        target = target[int(step)] if step.isdigit() else target.setdefault(step, {})
    if value is None:
        target.pop(int(last) if last.isdigit() else last)
    else:
        target[int(last) if last.isdigit() else last] = value
    return made
