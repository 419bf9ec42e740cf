"""Manifests of the NATS server that is run for a backend without a `url`.

There is one pod per stream replica, each with its own claim. Claim size and number of servers are fixed at
creation: StatefulSets cannot change the size, and JetStream does not move a stream from a single server into
a cluster. The configuration file is an annotation of the pod, mounted by the downward API.
"""

import json
import math
from collections.abc import Sequence
from typing import Final

from quintet.apis.eventingbackend import Effective, EventingBackend
from quintet.apis.meta import JsonObject, Resource
from quintet.apis.quantity import amount
from quintet.controllers.eventingbackend.decide import desired
from quintet.eventing.children import DISPATCHER, NATS_PORT, PUBLISHER, SERVER, child_name
from quintet.eventing.streams import most_bytes

STATEFUL_SETS = Resource("apps", "v1", "StatefulSet", "statefulsets")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")

CONFIG: Final = "eventing.kyma-project.io/nats-config"
"""Pod annotation with the configuration file of the server."""

_ROUTES: Final = "--routes"
_ROUTES_PORT: Final = 6222
_MONITOR_PORT: Final = 8222
_DATA: Final = "/data"
_CONFIG_FOLDER: Final = "/etc/nats"
_CONFIG_FILE: Final = "nats.conf"
_MEBIBYTE: Final = 1024 * 1024
# The file system, and deleted messages whose blocks NATS has not compacted yet.
_OVERHEAD: Final = 58 * _MEBIBYTE
_OVERHEAD_FACTOR: Final = 1.125
_UNBOUNDED: Final = 10 * 1024


def servers(config: Effective) -> int:
    """Return the number of servers."""
    return config.integer("streamReplicas")


def configured_servers(arguments: Sequence[str]) -> int:
    """Return the cluster size in a server's arguments; scaling the StatefulSet does not change it."""
    if _ROUTES not in arguments[:-1]:
        return 1
    return arguments[arguments.index(_ROUTES) + 1].count(",") + 1


def claim_size(config: Effective) -> str:
    """Return the storage request: what the streams can store, and the overhead of storing it."""
    most = most_bytes(config)
    if not most:
        return f"{_UNBOUNDED}Mi"
    return f"{math.ceil((most * _OVERHEAD_FACTOR + _OVERHEAD) / _MEBIBYTE)}Mi"


def max_file_store(size: str) -> int:
    """Return how many bytes streams may store on a volume of this size; the inverse of `claim_size`.

    By default NATS takes three quarters of what is free when it starts, which is too little for a volume
    with many events.
    """
    return max(0, int((int(amount(size) or 0) - _OVERHEAD) / _OVERHEAD_FACTOR))


def stateful_set(backend: EventingBackend, config: Effective, image: str, *, size: str) -> JsonObject:
    """Return the StatefulSet; `size` is that of existing claims, if there are any."""
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        },
    }
    return {
        "apiVersion": STATEFUL_SETS.api_version,
        "kind": STATEFUL_SETS.kind,
        "metadata": desired.metadata(backend, SERVER),
        "spec": {
            "replicas": servers(config),
            "serviceName": child_name(backend.metadata.name, SERVER),
            # Cluster members need each other's addresses before any of them is ready.
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": desired.selector(backend, SERVER)},
            "template": {
                "metadata": {
                    "labels": desired.labels(backend, SERVER),
                    "annotations": {CONFIG: _config_file(size)},
                },
                "spec": _pod(backend, config, image),
            },
            "volumeClaimTemplates": [claim],
        },
    }


def service(backend: EventingBackend) -> JsonObject:
    """Return the headless Service of the servers."""
    ports = [
        {"name": "nats", "port": NATS_PORT, "targetPort": "nats", "protocol": "TCP"},
        {"name": "routes", "port": _ROUTES_PORT, "targetPort": "routes", "protocol": "TCP"},
    ]
    return {
        "apiVersion": desired.SERVICES.api_version,
        "kind": desired.SERVICES.kind,
        "metadata": desired.metadata(backend, SERVER),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": desired.selector(backend, SERVER),
            "ports": ports,
        },
    }


def network_policy(backend: EventingBackend, system_namespace: str) -> JsonObject:
    """Return the NetworkPolicy that admits only this backend's pods and the operator: there is no login."""

    def pods(part: str) -> JsonObject:
        return {"podSelector": {"matchLabels": desired.selector(backend, part)}}

    system = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": system_namespace}}}
    return {
        "apiVersion": NETWORK_POLICIES.api_version,
        "kind": NETWORK_POLICIES.kind,
        "metadata": desired.metadata(backend, SERVER),
        "spec": {
            "podSelector": {"matchLabels": desired.selector(backend, SERVER)},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [pods(PUBLISHER), pods(DISPATCHER), system],
                    "ports": [{"port": NATS_PORT, "protocol": "TCP"}],
                },
                {"from": [pods(SERVER)], "ports": [{"port": _ROUTES_PORT, "protocol": "TCP"}]},
            ],
        },
    }


def _pod(backend: EventingBackend, config: Effective, image: str) -> JsonObject:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 60,
        "securityContext": desired.identity(),
        "topologySpreadConstraints": desired.spread(backend, SERVER),
        "containers": [
            {
                "name": SERVER,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "args": _arguments(backend, config),
                "env": [
                    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                "ports": [
                    {"name": "nats", "containerPort": NATS_PORT, "protocol": "TCP"},
                    {"name": "routes", "containerPort": _ROUTES_PORT, "protocol": "TCP"},
                    {"name": "monitor", "containerPort": _MONITOR_PORT, "protocol": "TCP"},
                ],
                "readinessProbe": _health("/healthz?js-server-only=true", periodSeconds=3),
                "livenessProbe": _health("/healthz?js-enabled-only=true", periodSeconds=20),
                # A large store takes long to load.
                "startupProbe": _health(
                    "/healthz?js-enabled-only=true", periodSeconds=1, failureThreshold=300
                ),
                "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
                "securityContext": desired.locked_down(),
                "volumeMounts": [
                    {"name": "data", "mountPath": _DATA},
                    {"name": "config", "mountPath": _CONFIG_FOLDER, "readOnly": True},
                ],
            }
        ],
        "volumes": [
            {
                "name": "config",
                "downwardAPI": {
                    "items": [
                        {
                            "path": _CONFIG_FILE,
                            "fieldRef": {"fieldPath": f"metadata.annotations['{CONFIG}']"},
                        }
                    ]
                },
            }
        ],
    }


def _config_file(size: str) -> str:
    """Return what only the configuration file can set. NATS reads JSON, too."""
    return json.dumps({"jetstream": {"store_dir": _DATA, "max_file_store": max_file_store(size)}})


def _arguments(backend: EventingBackend, config: Effective) -> list[str]:
    name, count = child_name(backend.metadata.name, SERVER), servers(config)
    alone = [
        "--name", "$(POD_NAME)",
        "--config", f"{_CONFIG_FOLDER}/{_CONFIG_FILE}",
        "--http_port", str(_MONITOR_PORT),
    ]  # fmt: skip
    if count == 1:
        return alone
    others = (f"nats://{name}-{number}.{name}:{_ROUTES_PORT}" for number in range(count))
    return [
        *alone,
        "--cluster_name", name,
        "--cluster", f"nats://0.0.0.0:{_ROUTES_PORT}",
        _ROUTES, ",".join(others),
    ]  # fmt: skip


def _health(path: str, **timing: int) -> JsonObject:
    return {"httpGet": {"path": path, "port": "monitor"}, **timing}
