"""A sidecar and a variable come into pods that run, by one rollout, and leave them again by another.

The operator runs in the cluster, as it is installed from config/default, with the rights that it has there:
it reaches the Deployments only through the ServiceAccount `casconfig` of the namespace.
"""

import json

import pytest
import yaml

from e2e.place import ROOT, SYSTEM, Place, a_condition, refusals
from kit.eventually import eventually

pytestmark = pytest.mark.node

EXAMPLE = ROOT / "examples/04-casconfig"
NAMES = ("books", "orders")


def containers(pod: dict) -> list[str]:
    return sorted(each["name"] for each in pod["spec"]["containers"])


def ready(pod: dict) -> bool:
    return a_condition(pod, "Ready").get("status") == "True"


async def settled(place: Place, name: str, want: list[str]) -> dict:
    """The one pod of a Deployment, once it has these containers and all of them run."""

    def probe() -> dict:
        pods = place.pods(name)
        assert [containers(pod) for pod in pods] == [want], pods
        assert ready(pods[0]), pods
        return pods[0]

    return await eventually(probe, within=180)


def revisions(place: Place, name: str) -> int:
    """How many rollouts a Deployment has had."""
    found = place.get("deployment", name)["metadata"]["annotations"]
    return int(found["deployment.kubernetes.io/revision"])


async def says(place: Place, pod: dict, container: str, text: str) -> None:
    """What a program in the pod prints, so that it is not only written down but running."""

    def probe() -> None:
        seen = place.kubectl("logs", pod["metadata"]["name"], "-c", container, "--tail=1")
        assert seen.strip() == text, seen

    await eventually(probe, within=60)


async def is_ready(place: Place, applied: str) -> dict:
    def probe() -> dict:
        found = place.get("casconfig", "logging")
        condition = a_condition(found, "Ready")
        assert condition.get("status") == "True", found.get("status")
        assert condition["observedGeneration"] == found["metadata"]["generation"]
        assert found["status"]["summary"] == applied, found["status"]
        return found

    await place.wait("casconfig/logging", "--for=condition=Ready")
    return await eventually(probe, within=180)


async def test_a_sidecar_and_a_variable_arrive_in_running_pods_and_leave_again(place):
    place.kubectl("apply", "-f", str(EXAMPLE / "shop.yaml"))
    for name in NAMES:
        pod = await settled(place, name, ["app"])
        await says(place, pod, "app", "no level")
    before = {name: place.get("deployment", name)["spec"] for name in NAMES}
    place.kubectl("apply", "-f", str(EXAMPLE / "casconfig.yaml"))
    await is_ready(place, "2/2")
    for name in NAMES:
        pod = await settled(place, name, ["app", "log-shipper"])
        await says(place, pod, "app", "debug")
        await says(place, pod, "log-shipper", "shipping")
        assert revisions(place, name) == 2, "not one rollout"
    place.kubectl("delete", "casconfig", "logging", "--timeout=180s")
    for name in NAMES:
        pod = await settled(place, name, ["app"])
        await says(place, pod, "app", "no level")
        assert place.get("deployment", name)["spec"] == before[name]
        # The first template is back, and Kubernetes numbers a rollout to it anew.
        assert revisions(place, name) == 3, "not one rollout"


@pytest.mark.exhaustive
async def test_the_api_server_refuses_what_the_rules_forbid(place):
    config = yaml.safe_load((EXAMPLE / "casconfig.yaml").read_text())
    config["spec"]["policies"][0]["include"] = {}
    said = place.refused("apply", "-f", "-", input=config)
    assert "an empty include matches nothing" in said
    config["spec"]["policies"][0]["include"] = {"kinds": ["Secret"]}
    assert "is never a target" in place.refused("apply", "-f", "-", input=config)
    config["spec"]["policies"][0] |= {"include": {"kinds": ["Deployment"]}}
    config["spec"]["policies"][0]["values"] = {"sidecars": [{"name": "x", "image": "x", "imaeg": "y"}]}
    assert "imaeg" in place.refused("apply", "-f", "-", input=config), "a container is not checked"
    assert json.loads(place.kubectl("get", "casconfig", "-o", "json"))["items"] == []


async def test_the_operator_was_refused_nothing(place):
    assert refusals(place.at(SYSTEM)) == []
