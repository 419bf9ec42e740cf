"""The Services through which discovery is reached: ours, and its published address. Called by `files`.

The published address is in a namespace of somebody else, `kyma-system`. A Service there cannot select
pods of ours, so it is another name for ours. It is installed apart from the rest: where Kyma itself
runs it would take the place of Kyma's own, and a namespace must not go when we are taken away.
"""

from quintet.apis.meta import JsonObject
from quintet.manifests.rbac import LABELS, SYSTEM_NAMESPACE

NAME = "eventing-controller"
KYMA_NAMESPACE = "kyma-system"
PORT = 8082


def discovery(selector: JsonObject) -> JsonObject:
    """The Service in the namespace of the operator."""
    ports = [{"name": "http", "port": 80, "targetPort": "discovery", "protocol": "TCP"}]
    return _service(SYSTEM_NAMESPACE, {"selector": selector, "ports": ports})


def published() -> JsonObject:
    """The same under its published name."""
    host = f"{NAME}.{SYSTEM_NAMESPACE}.svc.cluster.local"
    return _service(KYMA_NAMESPACE, {"type": "ExternalName", "externalName": host})


def _service(namespace: str, spec: JsonObject) -> JsonObject:
    metadata = {"name": NAME, "namespace": namespace, "labels": dict(LABELS)}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
