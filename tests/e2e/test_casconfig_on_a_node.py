"""CASConfig on running pods: one rollout injects a sidecar and a variable, another removes them."""

import json

import pytest
import yaml

from e2e.kubectl_client import ROOT, SYSTEM, KubectlClient, find_condition, find_forbidden_requests
from kit.eventually import eventually

pytestmark = pytest.mark.node

EXAMPLE = ROOT / "examples/04-casconfig"
NAMES = ("books", "orders")


def container_names(pod: dict) -> list[str]:
    return sorted(each["name"] for each in pod["spec"]["containers"])


def is_pod_ready(pod: dict) -> bool:
    return find_condition(pod, "Ready").get("status") == "True"


async def wait_for_pod(client: KubectlClient, name: str, want: list[str]) -> dict:
    """Wait until the only pod of a Deployment has these containers and is ready; return it."""

    def probe() -> dict:
        pods = client.pods(name)
        assert [container_names(pod) for pod in pods] == [want], pods
        assert is_pod_ready(pods[0]), pods
        return pods[0]

    return await eventually(probe, within=180)


def count_rollouts(client: KubectlClient, name: str) -> int:
    """Return the number of rollouts of a Deployment."""
    found = client.get("deployment", name)["metadata"]["annotations"]
    return int(found["deployment.kubernetes.io/revision"])


async def wait_for_output(client: KubectlClient, pod: dict, container: str, text: str) -> None:
    """Wait until a container prints a text, which proves that it runs."""

    def probe() -> None:
        seen = client.kubectl("logs", pod["metadata"]["name"], "-c", container, "--tail=1")
        assert seen.strip() == text, seen

    await eventually(probe, within=60)


async def wait_until_ready(client: KubectlClient, applied: str) -> dict:
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
        pod = await wait_for_pod(client, name, ["app"])
        await wait_for_output(client, pod, "app", "no level")
    before = {name: client.get("deployment", name)["spec"] for name in NAMES}
    client.kubectl("apply", "-f", str(EXAMPLE / "casconfig.yaml"))
    await wait_until_ready(client, "2/2")
    for name in NAMES:
        pod = await wait_for_pod(client, name, ["app", "log-shipper"])
        await wait_for_output(client, pod, "app", "debug")
        await wait_for_output(client, pod, "log-shipper", "shipping")
        assert count_rollouts(client, name) == 2, "not one rollout"
    client.kubectl("delete", "casconfig", "logging", "--timeout=180s")
    for name in NAMES:
        pod = await wait_for_pod(client, name, ["app"])
        await wait_for_output(client, pod, "app", "no level")
        assert client.get("deployment", name)["spec"] == before[name]
        # Kubernetes gives a rollout back to the first template a new revision.
        assert count_rollouts(client, name) == 3, "not one rollout"


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
