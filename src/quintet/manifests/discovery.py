"""The Services of the discovery API: ours, and the published name in Kyma's namespace.

The published name is in the namespace `kyma-system`. A Service there cannot select our pods, so it is an
ExternalName of our Service. It is installed separately: on a cluster with Kyma it would replace Kyma's own
Service, and uninstalling Quintet must not delete Kyma's namespace.
"""

from quintet.apis.meta import JsonObject
from quintet.manifests.rbac import LABELS, SYSTEM_NAMESPACE

NAME = "eventing-controller"
KYMA_NAMESPACE = "kyma-system"
PORT = 8082


def discovery(selector: JsonObject) -> JsonObject:
    """Return the Service in the namespace of the operator."""
    ports = [{"name": "http", "port": 80, "targetPort": "discovery", "protocol": "TCP"}]
    return _service(SYSTEM_NAMESPACE, {"selector": selector, "ports": ports})


def published_service() -> JsonObject:
    """Return the Service with the published name, which refers to ours."""
    host = f"{NAME}.{SYSTEM_NAMESPACE}.svc.cluster.local"
    return _service(KYMA_NAMESPACE, {"type": "ExternalName", "externalName": host})


def _service(namespace: str, spec: JsonObject) -> JsonObject:
    metadata = {"name": NAME, "namespace": namespace, "labels": dict(LABELS)}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
