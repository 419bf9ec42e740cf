"""A sidecar and a variable come into pods that run, by one rollout, and leave them again by another.

The operator runs in the cluster, as it is installed from config/default, with the rights that it has there:
it reaches the Deployments only through the ServiceAccount `casconfig` of the namespace.
"""

import json

import pytest
import yaml

from e2e.kubectl_client import ROOT, SYSTEM, KubectlClient, find_condition, find_forbidden_requests
from kit.eventually import eventually

pytestmark = pytest.mark.node

EXAMPLE = ROOT / "examples/04-casconfig"
NAMES = ("books", "orders")


def containers(pod: dict) -> list[str]:
    return sorted(each["name"] for each in pod["spec"]["containers"])


def ready(pod: dict) -> bool:
    return find_condition(pod, "Ready").get("status") == "True"


async def settled(client: KubectlClient, name: str, want: list[str]) -> dict:
    """The one pod of a Deployment, once it has these containers and all of them run."""

    def probe() -> dict:
        pods = client.pods(name)
        assert [containers(pod) for pod in pods] == [want], pods
        assert ready(pods[0]), pods
        return pods[0]

    return await eventually(probe, within=180)


def revisions(client: KubectlClient, name: str) -> int:
    """How many rollouts a Deployment has had."""
    found = client.get("deployment", name)["metadata"]["annotations"]
    return int(found["deployment.kubernetes.io/revision"])


async def says(client: KubectlClient, pod: dict, container: str, text: str) -> None:
    """What a program in the pod prints, so that it is not only written down but running."""

    def probe() -> None:
        seen = client.kubectl("logs", pod["metadata"]["name"], "-c", container, "--tail=1")
        assert seen.strip() == text, seen

    await eventually(probe, within=60)


async def is_ready(client: KubectlClient, applied: str) -> dict:
    def probe() -> dict:
        found = client.get("casconfig", "logging")
        condition = find_condition(found, "Ready")
        assert condition.get("status") == "True", found.get("status")
        assert condition["observedGeneration"] == found["metadata"]["generation"]
        assert found["status"]["summary"] == applied, found["status"]
        return found

    await client.wait("casconfig/logging", "--for=condition=Ready")
    return await eventually(probe, within=180)


async def test_casconfig_injects_sidecar_and_variable_and_removes_them_on_deletion(client):
    client.kubectl("apply", "-f", str(EXAMPLE / "shop.yaml"))
    for name in NAMES:
        pod = await settled(client, name, ["app"])
        await says(client, pod, "app", "no level")
    before = {name: client.get("deployment", name)["spec"] for name in NAMES}
    client.kubectl("apply", "-f", str(EXAMPLE / "casconfig.yaml"))
    await is_ready(client, "2/2")
    for name in NAMES:
        pod = await settled(client, name, ["app", "log-shipper"])
        await says(client, pod, "app", "debug")
        await says(client, pod, "log-shipper", "shipping")
        assert revisions(client, name) == 2, "not one rollout"
    client.kubectl("delete", "casconfig", "logging", "--timeout=180s")
    for name in NAMES:
        pod = await settled(client, name, ["app"])
        await says(client, pod, "app", "no level")
        assert client.get("deployment", name)["spec"] == before[name]
        # The first template is back, and Kubernetes numbers a rollout to it anew.
        assert revisions(client, name) == 3, "not one rollout"


@pytest.mark.exhaustive
async def test_casconfig_that_violates_rules_is_rejected(client):
    config = yaml.safe_load((EXAMPLE / "casconfig.yaml").read_text())
    config["spec"]["policies"][0]["include"] = {}
    said = client.expect_failure("apply", "-f", "-", input=config)
    assert "an empty include matches nothing" in said
    config["spec"]["policies"][0]["include"] = {"kinds": ["Secret"]}
    assert "is never a target" in client.expect_failure("apply", "-f", "-", input=config)
    config["spec"]["policies"][0] |= {"include": {"kinds": ["Deployment"]}}
    config["spec"]["policies"][0]["values"] = {"sidecars": [{"name": "x", "image": "x", "imaeg": "y"}]}
    assert "imaeg" in client.expect_failure("apply", "-f", "-", input=config), "a container is not checked"
    assert json.loads(client.kubectl("get", "casconfig", "-o", "json"))["items"] == []


async def test_casconfig_operator_log_has_no_forbidden_requests(client):
    assert find_forbidden_requests(client.in_namespace(SYSTEM)) == []
