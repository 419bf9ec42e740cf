"""The Deployment with all controllers in one process, for an installation without the suite operator."""

from quintet.apis.meta import JsonObject
from quintet.manifests import process
from quintet.manifests.discovery import PORT as DISCOVERY
from quintet.manifests.process import ProcessManifest
from quintet.manifests.rbac import LABELS, SYSTEM_NAMESPACE


def namespace(name: str = SYSTEM_NAMESPACE) -> JsonObject:
    """Return the operator's Namespace, which enforces the Pod Security Standard `restricted`."""
    labels = {**LABELS, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def manager() -> list[JsonObject]:
    """Return webhook configurations, Services, Deployment and PodDisruptionBudget."""
    args = ("run", *process.address_args(), f"--discovery-address=0.0.0.0:{DISCOVERY}")
    whole = ProcessManifest(args=args, discovery=True)
    return [
        *process.webhook_configurations(whole),
        *process.services(whole),
        process.deployment(whole),
        process.budget(whole),
    ]
