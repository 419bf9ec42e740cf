"""Checkups on the node: how to write them down, start them, and look at what became of them."""

from dataclasses import dataclass
from typing import Any

from e2e.place import Place, a_condition, a_list
from quintet.local.images import catalog

ACCOUNT = "checker"
# What a run makes; all of it belongs to the Checkup.
CHILDREN = "jobs,pods,configmaps,roles,rolebindings"
# In every namespace, whatever we do.
ALWAYS_THERE = {"configmap/kube-root-ca.crt"}
PASSED = "The checkup finished successfully"


def a_checkup(name: str, image: str = catalog.ECHO, **spec: Any) -> dict[str, Any]:
    """One that says hello, unless it is told otherwise."""
    defaults = {"timeoutSeconds": 120, "serviceAccountName": ACCOUNT, "params": {"message": "Hi!"}}
    return {
        "apiVersion": "kiagnose.io/v1alpha1",
        "kind": "Checkup",
        "metadata": {"name": name},
        "spec": {"image": image, **defaults, **spec},
    }


def hanging(seconds: int = 3600) -> dict[str, str]:
    """Parameters with which the echo takes its time."""
    return {"message": "Hi!", "delay": str(seconds)}


def furnish(system: Place, namespace: str, *items: dict[str, Any]) -> Place:
    """A namespace that takes pods of the strictest kind only, with an account without rights, and more."""
    place = system.at(namespace)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": namespace, "labels": labels}
    first = (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}},
    )
    place.apply(a_list(*first, *items))
    return place


@dataclass(frozen=True)
class Case:
    """A Checkup in a namespace of its own."""

    place: Place
    name: str

    @property
    def object(self) -> dict[str, Any]:
        return self.place.get("checkup", self.name)

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.object.get("status", {})
        return found

    async def verdict(self, within: float = 240) -> dict[str, Any]:
        """The status, once there is a verdict."""
        await self.place.wait(f"checkup/{self.name}", "--for=jsonpath={.status.verdict}", seconds=within)
        return self.status

    async def running(self, within: float = 120) -> dict[str, Any]:
        """The status, once the echo waits and has said so in its partial results."""
        said = "--for=jsonpath={.status.resultMap.waiting}=3600"
        await self.place.wait(f"checkup/{self.name}", said, seconds=within)
        status = self.status
        assert status["phase"] == "Running", status
        return status

    def condition(self, name: str) -> dict[str, Any]:
        return a_condition(self.object, name)

    def left(self) -> set[str]:
        """What of a run is still in the namespace."""
        found = self.place.kubectl("get", CHILDREN, "-o", "name").split()
        return set(found) - ALWAYS_THERE
