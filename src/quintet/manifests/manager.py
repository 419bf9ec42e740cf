"""The operator as a Deployment of two replicas, and what belongs to it. Called by `files`."""

from quintet import __version__
from quintet.apis.meta import JsonObject
from quintet.components import WEBHOOK_SERVICE
from quintet.manifests.rbac import ACCOUNT, LABELS, SYSTEM_NAMESPACE

IMAGE = f"quintet.local/quintet:{__version__}"
_SELECTOR = {"app.kubernetes.io/name": "quintet"}
_HEALTH, _WEBHOOKS = 8081, 9443


def namespace() -> JsonObject:
    """Where the operator lives; its own pods keep the strictest rules."""
    labels = {**LABELS, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE, "labels": labels}}


def manager() -> list[JsonObject]:
    """Deployment, Service of the webhooks, and disruption budget."""
    metadata = {"namespace": SYSTEM_NAMESPACE, "labels": dict(LABELS)}
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": _SELECTOR}}
    ports = [{"name": "webhooks", "port": 443, "targetPort": "webhooks", "protocol": "TCP"}]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": WEBHOOK_SERVICE, **metadata},
            "spec": {"selector": _SELECTOR, "ports": ports},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "quintet", **metadata},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": _SELECTOR},
                "template": {"metadata": {"labels": dict(LABELS)}, "spec": _pod()},
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "quintet", **metadata},
            "spec": budget,
        },
    ]


def _pod() -> JsonObject:
    return {
        "serviceAccountName": ACCOUNT,
        "terminationGracePeriodSeconds": 20,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container()],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": _SELECTOR},
            }
        ],
    }


def _container() -> JsonObject:
    return {
        "name": "quintet",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": ["run", f"--health-address=0.0.0.0:{_HEALTH}"],
        "env": [{"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "ports": [
            {"name": "health", "containerPort": _HEALTH, "protocol": "TCP"},
            {"name": "webhooks", "containerPort": _WEBHOOKS, "protocol": "TCP"},
        ],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 20},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # Certificates pass through a file on their way into the TLS library.
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
