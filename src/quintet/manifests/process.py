"""The Deployment of a process, its Services, PodDisruptionBudget and NetworkPolicy.

All pods conform to the Pod Security Standard `restricted`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from quintet import imagenames
from quintet.admission.registration import MUTATING, VALIDATING
from quintet.apis.meta import JsonObject
from quintet.apis.suite import AddedMetadata, DisruptionBudget, Pods
from quintet.apis.suite.pods import ImagePullPolicy
from quintet.components import INSTANCE, webhook_service
from quintet.manifests.discovery import PORT as DISCOVERY
from quintet.manifests.discovery import discovery
from quintet.manifests.rbac import SYSTEM_NAMESPACE

IMAGE = imagenames.QUINTET
NAME, PART_OF = "app.kubernetes.io/name", "app.kubernetes.io/part-of"
HEALTH, METRICS, WEBHOOKS = 8081, 9090, 9443
RESOURCES: Mapping[str, Mapping[str, str]] = {
    "requests": {"cpu": "50m", "memory": "96Mi"},
    "limits": {"memory": "512Mi"},
}


class MetricsMode(NamedTuple):
    """How a process serves its metrics: the value of `--metrics`, and the name of the port."""

    option: str
    port: str


SECURE_METRICS, PLAIN_METRICS = MetricsMode("secure", "https-metrics"), MetricsMode("plain", "metrics")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessManifest:
    """Settings of the objects of one process."""

    args: tuple[str, ...]
    name: str = INSTANCE
    namespace: str = SYSTEM_NAMESPACE
    image: str = IMAGE
    replicas: int = 2
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: RESOURCES)
    variables: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels besides name and part-of."""
    webhooks: bool = True
    discovery: bool = False
    metrics: MetricsMode = SECURE_METRICS
    progress_seconds: int | None = None
    """`progressDeadlineSeconds`; None for the default of Kubernetes."""
    pods: Pods = field(default_factory=Pods)
    services: AddedMetadata = field(default_factory=AddedMetadata)
    budget: DisruptionBudget = field(default_factory=DisruptionBudget)

    @property
    def selector(self) -> JsonObject:
        """The labels that select its pods."""
        return {NAME: self.name}

    def metadata(self, name: str = "") -> JsonObject:
        """Return the metadata of one of its objects."""
        labels = {**self.selector, PART_OF: "quintet", **self.labels}
        return {"name": name or self.name, "namespace": self.namespace, "labels": labels}


def address_args(metrics: MetricsMode = SECURE_METRICS) -> tuple[str, ...]:
    """Return the options with the addresses of health checks and metrics."""
    return (
        f"--health-address=0.0.0.0:{HEALTH}",
        f"--metrics-address=0.0.0.0:{METRICS}",
        f"--metrics={metrics.option}",
    )


def services(process: ProcessManifest) -> list[JsonObject]:
    """Return the Services of webhooks and discovery."""
    found = []
    if process.webhooks:
        ports = [{"name": "webhooks", "port": 443, "targetPort": "webhooks", "protocol": "TCP"}]
        found.append(_service(process, webhook_service(process.name), ports))
    if process.discovery:
        made = discovery(process.selector)
        metadata = process.metadata(made["metadata"]["name"])
        found.append({**made, "metadata": with_added(metadata, process.services)})
    return found


def webhook_configurations(process: ProcessManifest) -> list[JsonObject]:
    """Return webhook configurations without webhooks: the process fills them in."""
    metadata = {name: value for name, value in process.metadata().items() if name != "namespace"}
    return [
        {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        for resource in (MUTATING, VALIDATING)
        if process.webhooks
    ]


def metrics_service(process: ProcessManifest) -> JsonObject:
    """Return the Service of its metrics."""
    port = process.metrics.port
    ports = [{"name": port, "port": METRICS, "targetPort": port, "protocol": "TCP"}]
    return _service(process, f"{process.name}-metrics", ports)


def service_monitor(process: ProcessManifest) -> JsonObject:
    """Return the ServiceMonitor of all our metrics Services, for the Prometheus Operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": process.metadata(),
        "spec": {
            "selector": {"matchLabels": {PART_OF: "quintet"}},
            # A Service has one of these ports.
            "endpoints": [
                {"port": PLAIN_METRICS.port, "path": "/metrics", "interval": "30s"},
                {
                    "port": SECURE_METRICS.port,
                    "path": "/metrics",
                    "interval": "30s",
                    "scheme": "https",
                    "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                    # Each pod signs its own certificate.
                    "tlsConfig": {"insecureSkipVerify": True},
                },
            ],
        },
    }


def deployment(process: ProcessManifest) -> JsonObject:
    """Return the Deployment."""
    metadata = {"labels": process.metadata()["labels"]}
    spec: JsonObject = {
        "replicas": process.replicas,
        "selector": {"matchLabels": process.selector},
        # Webhooks stay available: an old pod stops only when a new one is ready.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": {"metadata": with_added(metadata, process.pods), "spec": _pod(process)},
    }
    if process.progress_seconds is not None:
        spec["progressDeadlineSeconds"] = process.progress_seconds
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": process.metadata(), "spec": spec}


def budget(process: ProcessManifest) -> JsonObject:
    """Return the PodDisruptionBudget: one pod at a time, unless the process has another one."""
    limit: JsonObject = {"maxUnavailable": process.budget.max_unavailable}
    if process.budget.min_available is not None:
        limit = {"minAvailable": process.budget.min_available}
    elif process.budget.max_unavailable is None:
        limit = {"maxUnavailable": 1}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": process.metadata(),
        "spec": {**limit, "selector": {"matchLabels": process.selector}},
    }


def network_policy(process: ProcessManifest) -> JsonObject:
    """Return the NetworkPolicy, which allows ingress to the container ports only.

    It cannot restrict the sources: API server and kubelet are outside the pod network.
    """
    ports = [port["containerPort"] for port in _ports(process)]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": process.metadata(),
        "spec": {
            "podSelector": {"matchLabels": process.selector},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"port": port, "protocol": "TCP"} for port in ports]}],
        },
    }


def _service(process: ProcessManifest, name: str, ports: list[JsonObject]) -> JsonObject:
    spec = {"selector": process.selector, "ports": ports}
    metadata = with_added(process.metadata(name), process.services)
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def with_added(metadata: JsonObject, added: AddedMetadata | Pods) -> JsonObject:
    """Return metadata with further labels and annotations; those that it already has stay."""
    found = {
        "labels": {**added.labels, **metadata.get("labels", {})},
        "annotations": {**added.annotations, **metadata.get("annotations", {})},
    }
    return {**metadata, **{name: values for name, values in found.items() if values}}


def _pod(process: ProcessManifest) -> JsonObject:
    return {
        "serviceAccountName": process.name,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(process)],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}}],
        **_scheduling(process),
    }


def _scheduling(process: ProcessManifest) -> JsonObject:
    own = {"matchLabels": process.selector}
    over_nodes = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
    }
    spread = process.pods.topology_spread_constraints or (over_nodes,)
    found = {
        "imagePullSecrets": list(process.pods.image_pull_secrets),
        "nodeSelector": process.pods.node_selector,
        "tolerations": list(process.pods.tolerations),
        "affinity": process.pods.affinity,
        "topologySpreadConstraints": [
            {**each, "labelSelector": each.get("labelSelector", own)} for each in spread
        ],
        "priorityClassName": process.pods.priority_class_name,
    }
    return {name: value for name, value in found.items() if value}


def _ports(process: ProcessManifest) -> list[JsonObject]:
    ports = [("health", HEALTH, True), (process.metrics.port, METRICS, True)]
    ports.append(("webhooks", WEBHOOKS, process.webhooks))
    ports.append(("discovery", DISCOVERY, process.discovery))
    return [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port, there in ports if there]


def _container(process: ProcessManifest) -> JsonObject:
    own = {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
    return {
        "name": "quintet",
        "image": process.image,
        "imagePullPolicy": str(process.pods.image_pull_policy or ImagePullPolicy.IF_NOT_PRESENT),
        "args": [*process.args, *process.pods.args],
        "env": [
            own,
            *({"name": name, "value": value} for name, value in process.variables.items()),
            *process.pods.env,
        ],
        "ports": _ports(process),
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 20},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 5},
        "resources": {name: dict(each) for name, each in process.resources.items() if each},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # The TLS library loads certificates from a temporary file.
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
