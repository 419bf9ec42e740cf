"""The pods that take in and deliver the events of a backend, and what belongs to them. Pure.

`DataPlane` is what a driver wants; every function here makes one complete object of it. The
server of a backend that brings its own is in `server`.
"""

from dataclasses import dataclass
from typing import Final

from quintet.apis.eventingbackend import EventingBackend
from quintet.apis.meta import JsonObject, Resource
from quintet.apis.subscription import SUBSCRIPTIONS
from quintet.eventing.children import DISPATCHER, PUBLISHER, child_name
from quintet.eventing.settings import (
    CREDENTIALS,
    VARIABLE,
    DispatcherSettings,
    PublisherSettings,
    encoded,
)

DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")
SERVICES = Resource("", "v1", "Service", "services")
SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")
RBAC: Final = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "Role", "roles")
ROLE_BINDINGS = Resource(RBAC, "v1", "RoleBinding", "rolebindings")
BUDGETS = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")

SELECTOR: Final = "app.kubernetes.io/managed-by=quintet,app.kubernetes.io/name=eventing"
"""What our children have in common, for watching them."""
BACKEND_LABEL: Final = "eventing.kyma-project.io/backend"
SECRET_VERSION: Final = "eventing.kyma-project.io/secret-version"
"""On the pods: which state of the Secret they run with. A version tells nothing about the content."""
DISPATCHER_VERBS: Final = ("list", "watch")
EVENT_VERBS: Final = ("create", "patch")

HTTP_PORT: Final = 8080
METRICS_PORT: Final = 9090
_USER: Final = 65532
# Longer than a publisher waits for an acknowledgement, and than a sink may take to answer.
_GRACE_SECONDS: Final = 60
_VOLUME: Final = "credentials"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPlane:
    """What a driver wants to run for a configuration."""

    publisher: PublisherSettings
    publisher_replicas: int
    dispatcher: DispatcherSettings | None = None
    """None: the backend delivers events by itself."""
    dispatcher_replicas: int = 0
    secret: str = ""
    """The Secret that the pods need; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """What is the same for all pods of a backend."""

    image: str
    secret: str = ""
    secret_version: str = ""


def publisher(backend: EventingBackend, plane: DataPlane, pods: Pods, *, replicas: int | None) -> JsonObject:
    """The Deployment that takes in events; without replicas where somebody else scales it."""
    return _deployment(backend, PUBLISHER, _pod(backend, PUBLISHER, encoded(plane.publisher), pods), replicas)


def dispatcher(
    backend: EventingBackend, settings: DispatcherSettings, pods: Pods, *, replicas: int | None
) -> JsonObject:
    """The Deployment that delivers events; it speaks to the API server under a name of its own."""
    pod = _pod(backend, DISPATCHER, encoded(settings), pods)
    pod["serviceAccountName"] = child_name(backend.metadata.name, DISPATCHER)
    pod["automountServiceAccountToken"] = True
    return _deployment(backend, DISPATCHER, pod, replicas)


def publisher_service(backend: EventingBackend) -> JsonObject:
    """The address at which events are published."""
    http = {"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP", "appProtocol": "http"}
    return _service(backend, PUBLISHER, [http, _metrics_port()])


def dispatcher_service(backend: EventingBackend) -> JsonObject:
    """Where the measurements of the dispatchers are found."""
    return _service(backend, DISPATCHER, [_metrics_port()])


def budget(backend: EventingBackend, part: str) -> JsonObject:
    """No more than one pod of a part leaves at a time."""
    return {
        "apiVersion": BUDGETS.api_version,
        "kind": BUDGETS.kind,
        "metadata": metadata(backend, part),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(backend, part)}},
    }


def account(backend: EventingBackend) -> JsonObject:
    """Who the dispatchers are."""
    return {
        "apiVersion": SERVICE_ACCOUNTS.api_version,
        "kind": SERVICE_ACCOUNTS.kind,
        "metadata": metadata(backend, DISPATCHER),
        "automountServiceAccountToken": False,
    }


def role(backend: EventingBackend) -> JsonObject:
    """What the dispatchers may do: see Subscriptions, and tell users of events that cannot be delivered."""
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
    """Gives the dispatchers their role."""
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
    """Name, namespace and labels of a child."""
    name = child_name(backend.metadata.name, part)
    return {"name": name, "namespace": backend.metadata.namespace, "labels": labels(backend, part)}


def labels(backend: EventingBackend, part: str) -> dict[str, str]:
    """What a child and its pods are labelled with."""
    return {
        **selector(backend, part),
        "app.kubernetes.io/name": "eventing",
        "app.kubernetes.io/component": part,
        "app.kubernetes.io/managed-by": "quintet",
        "app.kubernetes.io/part-of": "quintet",
    }


def selector(backend: EventingBackend, part: str) -> dict[str, str]:
    """What finds the pods of one part of a backend."""
    return {BACKEND_LABEL: child_name(backend.metadata.name, part)}


def locked_down() -> JsonObject:
    """A container that may do nothing but compute."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def identity(user: int = _USER) -> JsonObject:
    """A pod that runs as nobody in particular."""
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def spread(backend: EventingBackend, part: str) -> list[JsonObject]:
    """Over nodes, and over zones, as far as there are several."""
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
        # A pod goes only when the one that takes its place is ready.
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
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "securityContext": identity(),
        "topologySpreadConstraints": spread(backend, part),
        "containers": [_container(part, settings, pods)],
    }
    if pods.secret:
        # Readable by the process alone.
        pod["volumes"] = [{"name": _VOLUME, "secret": {"secretName": pods.secret, "defaultMode": 0o440}}]
    return pod


def _container(part: str, settings: str, pods: Pods) -> JsonObject:
    container: JsonObject = {
        "name": part,
        "image": pods.image,
        "imagePullPolicy": "IfNotPresent",
        "args": [part],
        # The kubelet replaces $(NAME) in values; a doubled sign stands for itself.
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
