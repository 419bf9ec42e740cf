"""Discovery of backends from a pod, through the address of the installation and of the design."""

import json

import pytest

from e2e.kubectl_client import ROOT, SYSTEM, KubectlClient
from kit.eventually import eventually
from kit.kinds.jsonservers import a_jsonserver

pytestmark = [pytest.mark.node, pytest.mark.exhaustive]

KYMA = "kyma-system"
FAULTY = {
    "apiVersion": "eventing.kyma-project.io/v1alpha1",
    "kind": "EventingBackend",
    "metadata": {"name": "any"},
    "spec": {"type": "beb", "config": [{"secretRef": "some-secret"}, {"qos": "ONCE"}]},
}


@pytest.fixture
async def client_pod(shared_client: KubectlClient) -> str:
    """A pod that sends the requests."""
    shared_client.apply(a_jsonserver("app-client"))
    shared_client.wait_for("app-client", "Ready")
    return shared_client.pods("app-client")[0]["metadata"]["name"]


@pytest.fixture(scope="module")
def design_address(operator: KubectlClient) -> None:
    """Install the Service at the address of the design, in its namespace."""
    operator.run("create", "namespace", KYMA)
    operator.in_namespace(KYMA).kubectl("apply", "-k", str(ROOT / "config/kyma"))


@pytest.mark.parametrize(
    "host",
    [
        f"eventing-controller.{SYSTEM}",
        f"eventing-controller.{KYMA}",
        f"eventing-controller.{KYMA}.svc.cluster.local",
    ],
)
async def test_pod_discovers_installed_backends(
    host, design_address, shared_client: KubectlClient, client_pod: str
):
    client = shared_client

    async def assert_response() -> None:
        assert client.send_request(client_pod, f"http://{host}/backend") == (200, '["nats","beb"]')
        status, body = client.send_request(client_pod, f"http://{host}/backend/beb")
        assert (status, json.loads(body)["type"]) == (200, "beb")
        question = '[{"streamReplicas": 9}]'
        status, body = client.send_request(
            client_pod, f"http://{host}/backend/nats/validate", "POST", question
        )
        assert (status, json.loads(body)["valid"]) == (200, False)

    await eventually(assert_response, within=120)


async def test_backend_with_validation_warnings_is_accepted_with_warnings(shared_client: KubectlClient):
    want = 'Warning: spec.config[qos]: Invalid value: "ONCE": must be one of AT_LEAST_ONCE, AT_MOST_ONCE'

    def assert_warning(*options: str) -> None:
        answer = shared_client.run("apply", *options, "-f", "-", input=FAULTY)
        assert answer.returncode == 0, answer.stderr
        assert want in answer.stderr

    # The API server calls a new webhook with a delay; an unchanged object is not reviewed again.
    await eventually(lambda: assert_warning("--dry-run=server"))
    assert_warning()
