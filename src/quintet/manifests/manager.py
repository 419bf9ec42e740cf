"""The operator as one Deployment of two replicas, and what belongs to it. Called by `files`."""

from quintet.apis.meta import JsonObject
from quintet.manifests import process
from quintet.manifests.discovery import PORT as DISCOVERY
from quintet.manifests.process import HEALTH, Process
from quintet.manifests.rbac import LABELS, SYSTEM_NAMESPACE


def namespace(name: str = SYSTEM_NAMESPACE) -> JsonObject:
    """Where the operator lives; its own pods keep the strictest rules."""
    labels = {**LABELS, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def manager() -> list[JsonObject]:
    """Webhook configurations, Services of webhooks and discovery, Deployment, and disruption budget."""
    args = ("run", f"--health-address=0.0.0.0:{HEALTH}", f"--discovery-address=0.0.0.0:{DISCOVERY}")
    whole = Process(args=args, discovery=True)
    return [
        *process.webhook_configurations(whole),
        *process.services(whole),
        process.deployment(whole),
        process.budget(whole),
    ]
