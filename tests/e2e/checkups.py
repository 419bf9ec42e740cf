"""Builds and starts Checkups on the node, and reads their status."""

from dataclasses import dataclass
from typing import Any

from e2e.kubectl_client import KubectlClient, find_condition, object_list
from quintet.local.images import catalog

ACCOUNT = "checker"
# The objects that a run creates, all owned by the Checkup.
CHILDREN = "jobs,pods,configmaps,roles,rolebindings"
# Kubernetes creates these in every namespace.
ALWAYS_THERE = {"configmap/kube-root-ca.crt"}
PASSED = "The checkup finished successfully"


def a_checkup(name: str, image: str = catalog.ECHO, **spec: Any) -> dict[str, Any]:
    """Return a Checkup that echoes a message, unless `spec` overrides it."""
    defaults = {"timeoutSeconds": 120, "serviceAccountName": ACCOUNT, "params": {"message": "Hi!"}}
    return {
        "apiVersion": "kiagnose.io/v1alpha1",
        "kind": "Checkup",
        "metadata": {"name": name},
        "spec": {"image": image, **defaults, **spec},
    }


def hanging_params(seconds: int = 3600) -> dict[str, str]:
    """Return parameters with which the echo image waits."""
    return {"message": "Hi!", "delay": str(seconds)}


def create_checkup_namespace(system: KubectlClient, namespace: str, *items: dict[str, Any]) -> KubectlClient:
    """Create a `restricted` namespace with a ServiceAccount without permissions, and other objects."""
    client = system.in_namespace(namespace)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": namespace, "labels": labels}
    first = (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}},
    )
    client.apply(object_list(*first, *items))
    return client


@dataclass(frozen=True)
class Case:
    """A Checkup in its own namespace."""

    client: KubectlClient
    name: str

    @property
    def object(self) -> dict[str, Any]:
        return self.client.get("checkup", self.name)

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.object.get("status", {})
        return found

    async def wait_for_verdict(self, within: float = 240) -> dict[str, Any]:
        """Wait for the verdict; return the status."""
        await self.client.wait(f"checkup/{self.name}", "--for=jsonpath={.status.verdict}", seconds=within)
        return self.status

    async def wait_until_running(self, within: float = 120) -> dict[str, Any]:
        """Wait until the echo image reports in its partial results that it waits; return the status."""
        condition = "--for=jsonpath={.status.resultMap.waiting}=3600"
        await self.client.wait(f"checkup/{self.name}", condition, seconds=within)
        status = self.status
        assert status["phase"] == "Running", status
        return status

    def condition(self, name: str) -> dict[str, Any]:
        return find_condition(self.object, name)

    def remaining_objects(self) -> set[str]:
        """Return the objects of a run that are still in the namespace."""
        found = self.client.kubectl("get", CHILDREN, "-o", "name").split()
        return set(found) - ALWAYS_THERE
