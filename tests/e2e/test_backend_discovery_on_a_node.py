"""Discovery of backends as a pod in the cluster sees it, by the address of the installation and the
published one.
"""

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
    """A pod to ask from."""
    shared_client.apply(a_jsonserver("app-client"))
    shared_client.wait_for("app-client", "Ready")
    return shared_client.pods("app-client")[0]["metadata"]["name"]


@pytest.fixture(scope="module")
def published(operator: KubectlClient) -> None:
    """The address of the design, in its namespace."""
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
    host, published, shared_client: KubectlClient, client_pod: str
):
    client = shared_client

    async def answered() -> None:
        assert client.send_request(client_pod, f"http://{host}/backend") == (200, '["nats","beb"]')
        status, body = client.send_request(client_pod, f"http://{host}/backend/beb")
        assert (status, json.loads(body)["type"]) == (200, "beb")
        question = '[{"streamReplicas": 9}]'
        status, body = client.send_request(
            client_pod, f"http://{host}/backend/nats/validate", "POST", question
        )
        assert (status, json.loads(body)["valid"]) == (200, False)

    await eventually(answered, within=120)


async def test_backend_with_validation_warnings_is_accepted_with_warnings(shared_client: KubectlClient):
    want = 'Warning: spec.config[qos]: Invalid value: "ONCE": must be one of AT_LEAST_ONCE, AT_MOST_ONCE'

    def warned(*options: str) -> None:
        answer = shared_client.run("apply", *options, "-f", "-", input=FAULTY)
        assert answer.returncode == 0, answer.stderr
        assert want in answer.stderr

    # The API server hears of a webhook later than it is registered; what is stored is not asked about twice.
    await eventually(lambda: warned("--dry-run=server"))
    warned()
