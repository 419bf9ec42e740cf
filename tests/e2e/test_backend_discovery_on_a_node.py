"""Discovery of backends as a pod in the cluster sees it, by the address of the installation and the published one."""

import json

import pytest

from e2e.place import ROOT, SYSTEM, Place
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
async def client_pod(shared_place: Place) -> str:
    """A pod to ask from."""
    shared_place.apply(a_jsonserver("app-client"))
    shared_place.wait_for("app-client", "Ready")
    return shared_place.pods("app-client")[0]["metadata"]["name"]


@pytest.fixture(scope="module")
def published(operator: Place) -> None:
    """The address of the design, in its namespace."""
    operator.run("create", "namespace", KYMA)
    operator.at(KYMA).kubectl("apply", "-k", str(ROOT / "config/kyma"))


@pytest.mark.parametrize(
    "host",
    [
        f"eventing-controller.{SYSTEM}",
        f"eventing-controller.{KYMA}",
        f"eventing-controller.{KYMA}.svc.cluster.local",
    ],
)
async def test_a_pod_finds_out_which_backends_there_are(
    host, published, shared_place: Place, client_pod: str
):
    place = shared_place

    async def answered() -> None:
        assert place.ask(client_pod, f"http://{host}/backend") == (200, '["nats","beb"]')
        status, body = place.ask(client_pod, f"http://{host}/backend/beb")
        assert (status, json.loads(body)["type"]) == (200, "beb")
        question = '[{"streamReplicas": 9}]'
        status, body = place.ask(client_pod, f"http://{host}/backend/nats/validate", "POST", question)
        assert (status, json.loads(body)["valid"]) == (200, False)

    await eventually(answered, within=120)


async def test_mistakes_are_warned_of_by_the_installed_operator(shared_place: Place):
    want = 'Warning: spec.config[qos]: Invalid value: "ONCE": must be one of AT_LEAST_ONCE, AT_MOST_ONCE'

    def warned(*options: str) -> None:
        answer = shared_place.run("apply", *options, "-f", "-", input=FAULTY)
        assert answer.returncode == 0, answer.stderr
        assert want in answer.stderr

    # The API server hears of a webhook later than it is registered; what is stored is not asked about twice.
    await eventually(lambda: warned("--dry-run=server"))
    warned()
