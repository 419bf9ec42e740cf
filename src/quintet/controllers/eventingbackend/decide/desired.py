"""Complete manifests of a backend's publisher and dispatcher.

`server` has those of the NATS server that is run for a backend without a `url`.
"""

from dataclasses import dataclass
from typing import Final

from quintet.apis.eventingbackend import EventingBackend
from quintet.apis.meta import JsonObject, Resource
from quintet.apis.subscription import SUBSCRIPTIONS
from quintet.eventing.children import DISPATCHER, PUBLISHER, child_name
from quintet.eventing.settings import (
    CREDENTIALS,
    POD_GRACE_SECONDS,
    VARIABLE,
    DispatcherSettings,
    PublisherSettings,
    encode_settings,
)

DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")
SERVICES = Resource("", "v1", "Service", "services")
SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")
RBAC: Final = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "Role", "roles")
ROLE_BINDINGS = Resource(RBAC, "v1", "RoleBinding", "rolebindings")
BUDGETS = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")

SELECTOR: Final = "app.kubernetes.io/managed-by=quintet,app.kubernetes.io/name=eventing"
"""Label selector of all children."""
BACKEND_LABEL: Final = "eventing.kyma-project.io/backend"
SECRET_VERSION: Final = "eventing.kyma-project.io/secret-version"
"""Pod annotation with the version of the Secret that the pods use. It reveals nothing about its content."""
DISPATCHER_VERBS: Final = ("list", "watch")
EVENT_VERBS: Final = ("create", "patch")

HTTP_PORT: Final = 8080
METRICS_PORT: Final = 9090
_USER: Final = 65532
_VOLUME: Final = "credentials"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPlane:
    """What a driver runs for a configuration."""

    publisher: PublisherSettings
    publisher_replicas: int
    dispatcher: DispatcherSettings | None = None
    """None if the backend itself delivers events."""
    dispatcher_replicas: int = 0
    secret: str = ""
    """Secret that the pods mount; empty if none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """Settings that all pods of a backend share."""

    image: str
    secret: str = ""
    secret_version: str = ""


def publisher(backend: EventingBackend, plane: DataPlane, pods: Pods, *, replicas: int | None) -> JsonObject:
    """Return the Deployment of the publisher; without replicas if an autoscaler sets them."""
    return _deployment(
        backend, PUBLISHER, _pod(backend, PUBLISHER, encode_settings(plane.publisher), pods), replicas
    )


def dispatcher(
    backend: EventingBackend, settings: DispatcherSettings, pods: Pods, *, replicas: int | None
) -> JsonObject:
    """Return the Deployment of the dispatcher, which has its own ServiceAccount."""
    pod = _pod(backend, DISPATCHER, encode_settings(settings), pods)
    pod["serviceAccountName"] = child_name(backend.metadata.name, DISPATCHER)
    pod["automountServiceAccountToken"] = True
    return _deployment(backend, DISPATCHER, pod, replicas)


def publisher_service(backend: EventingBackend) -> JsonObject:
    """Return the Service at which events are published."""
    http = {"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP", "appProtocol": "http"}
    return _service(backend, PUBLISHER, [http, _metrics_port()])


def dispatcher_service(backend: EventingBackend) -> JsonObject:
    """Return the Service of the dispatcher's metrics."""
    return _service(backend, DISPATCHER, [_metrics_port()])


def budget(backend: EventingBackend, part: str) -> JsonObject:
    """Return a PodDisruptionBudget that lets one pod of a part be evicted at a time."""
    return {
        "apiVersion": BUDGETS.api_version,
        "kind": BUDGETS.kind,
        "metadata": metadata(backend, part),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(backend, part)}},
    }


def account(backend: EventingBackend) -> JsonObject:
    """Return the ServiceAccount of the dispatcher."""
    return {
        "apiVersion": SERVICE_ACCOUNTS.api_version,
        "kind": SERVICE_ACCOUNTS.kind,
        "metadata": metadata(backend, DISPATCHER),
        "automountServiceAccountToken": False,
    }


def role(backend: EventingBackend) -> JsonObject:
    """Return the Role of the dispatcher: read Subscriptions, and report undeliverable events as Events."""
    rules = [
        {
            "apiGroups": [SUBSCRIPTIONS.group],
            "resources": [SUBSCRIPTIONS.plural],
            "verbs": list(DISPATCHER_VERBS),
        },
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": list(EVENT_VERBS)},
    ]
    return {
        "apiVersion": ROLES.api_version,
        "kind": ROLES.kind,
        "metadata": metadata(backend, DISPATCHER),
        "rules": rules,
    }


def role_binding(backend: EventingBackend) -> JsonObject:
    """Return the RoleBinding of the dispatcher."""
    name = child_name(backend.metadata.name, DISPATCHER)
    subject = {"kind": SERVICE_ACCOUNTS.kind, "name": name, "namespace": backend.metadata.namespace}
    return {
        "apiVersion": ROLE_BINDINGS.api_version,
        "kind": ROLE_BINDINGS.kind,
        "metadata": metadata(backend, DISPATCHER),
        "roleRef": {"apiGroup": RBAC, "kind": ROLES.kind, "name": name},
        "subjects": [subject],
    }


def metadata(backend: EventingBackend, part: str) -> JsonObject:
    """Return name, namespace and labels of a child."""
    name = child_name(backend.metadata.name, part)
    return {"name": name, "namespace": backend.metadata.namespace, "labels": labels(backend, part)}


def labels(backend: EventingBackend, part: str) -> dict[str, str]:
    """Return the labels of a child and its pods."""
    return {
        **selector(backend, part),
        "app.kubernetes.io/name": "eventing",
        "app.kubernetes.io/component": part,
        "app.kubernetes.io/managed-by": "quintet",
        "app.kubernetes.io/part-of": "quintet",
    }


def selector(backend: EventingBackend, part: str) -> dict[str, str]:
    """Return the labels that select the pods of one part of a backend."""
    return {BACKEND_LABEL: child_name(backend.metadata.name, part)}


def locked_down() -> JsonObject:
    """Return the securityContext of a container without any privileges."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def identity(user: int = _USER) -> JsonObject:
    """Return the securityContext of a pod that does not run as root."""
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def spread(backend: EventingBackend, part: str) -> list[JsonObject]:
    """Return topology constraints that spread pods over nodes and zones."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": selector(backend, part)},
        }
        for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
    ]


def _deployment(backend: EventingBackend, part: str, pod: JsonObject, replicas: int | None) -> JsonObject:
    annotations = pod.pop("annotations")
    template: JsonObject = {"metadata": {"labels": labels(backend, part)}, "spec": pod}
    if annotations:
        template["metadata"]["annotations"] = annotations
    spec: JsonObject = {
        "selector": {"matchLabels": selector(backend, part)},
        # A pod is stopped only after its replacement is ready.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": template,
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {
        "apiVersion": DEPLOYMENTS.api_version,
        "kind": DEPLOYMENTS.kind,
        "metadata": metadata(backend, part),
        "spec": spec,
    }


def _pod(backend: EventingBackend, part: str, settings: str, pods: Pods) -> JsonObject:
    pod: JsonObject = {
        "annotations": {SECRET_VERSION: pods.secret_version} if pods.secret_version else {},
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": POD_GRACE_SECONDS,
        "securityContext": identity(),
        "topologySpreadConstraints": spread(backend, part),
        "containers": [_container(part, settings, pods)],
    }
    if pods.secret:
        # Only the process's group can read it.
        pod["volumes"] = [{"name": _VOLUME, "secret": {"secretName": pods.secret, "defaultMode": 0o440}}]
    return pod


def _container(part: str, settings: str, pods: Pods) -> JsonObject:
    container: JsonObject = {
        "name": part,
        "image": pods.image,
        "imagePullPolicy": "IfNotPresent",
        "args": [part],
        # The kubelet expands $(NAME) in values; `$$` escapes it.
        "env": [{"name": VARIABLE, "value": settings.replace("$", "$$")}],
        "ports": [
            {"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
        ],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 5},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 20},
        "startupProbe": {
            "httpGet": {"path": "/healthz", "port": "http"},
            "periodSeconds": 1,
            "failureThreshold": 60,
        },
        "resources": {"requests": {"cpu": "40m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": locked_down(),
    }
    if pods.secret:
        container["volumeMounts"] = [{"name": _VOLUME, "mountPath": CREDENTIALS, "readOnly": True}]
    return container


def _service(backend: EventingBackend, part: str, ports: list[JsonObject]) -> JsonObject:
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": metadata(backend, part),
        "spec": {"type": "ClusterIP", "selector": selector(backend, part), "ports": ports},
    }


def _metrics_port() -> JsonObject:
    return {"name": "metrics", "port": METRICS_PORT, "targetPort": "metrics", "protocol": "TCP"}
