"""The test plan of the JsonServer design, with its test case numbers, for cases that need running pods."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
import yaml

from e2e.conftest import new_namespace, remove_namespace
from e2e.kubectl_client import (
    ROOT,
    KubectlClient,
    fetch,
    find_condition,
    find_forbidden_requests,
    horizontal_pod_autoscaler,
)
from kit.eventually import eventually
from kit.kinds.jsonservers import a_jsonserver

pytestmark = pytest.mark.node

NAME = "app-my-server"
# In the format of json-server, so that responses can be compared byte for byte.
DATA = json.dumps({"people": [{"id": 1, "name": "Person A"}, {"id": 2, "name": "Person B"}]}, indent=2)
OTHER = json.dumps(
    {"people": [{"id": 7, "name": "Ä \N{GRINNING FACE}"}], "posts": []}, indent=2, ensure_ascii=False
)
SAMPLES = {path.stem: path for path in sorted((ROOT / "config/samples").glob("jsonserver*.yaml"))}


OPTIONS = {
    "storage": "Ephemeral",
    "idField": "name",
    "cors": False,
    "routes": [
        {"path": "/api/*", "target": "/$1"},
        {"path": "/person\\?called=:name", "target": "/people/:name"},
    ],
    "bodyLimit": "1Ki",
}
FAULTS = [{"status": 429, "percent": 100}]

# The objects of each case's namespace.
CASES = {
    "options": [a_jsonserver(NAME, '{"people": [{"id": 1, "name": "A"}]}', **OPTIONS)],
    "unreliable": [a_jsonserver(NAME, DATA, faults=FAULTS, delay={"milliseconds": 1500}, bodyLimit=9)],
    "autoscaled": [
        a_jsonserver(NAME, DATA),
        horizontal_pod_autoscaler("example.com/v1", "JsonServer", NAME, 2, 3),
    ],
    "ephemeral": [a_jsonserver(NAME, DATA, storage="Ephemeral")],
    "listed": [a_jsonserver(NAME, DATA)],
    "namespace": [a_jsonserver(NAME, DATA, replicas=2)],
    **{name: [yaml.safe_load(path.read_text())] for name, path in SAMPLES.items()},
}


def url(client: KubectlClient, path: str = "db") -> str:
    return f"http://{NAME}.{client.namespace}.svc:3000/{path}"


def first_pod(client: KubectlClient) -> str:
    return client.pods(NAME)[0]["metadata"]["name"]


def restart_counts(client: KubectlClient) -> list[int]:
    return [each["restartCount"] for pod in client.pods(NAME) for each in pod["status"]["containerStatuses"]]


async def wait_until_ready(client: KubectlClient) -> dict:
    """Wait until the status reports the current generation as ready; return the JsonServer."""

    def probe() -> dict:
        found = client.get("jsonserver", NAME)
        generation = found["metadata"]["generation"]
        for name in ("Synced", "Ready", "Verified"):
            seen = find_condition(found, name)
            assert (seen.get("status"), seen.get("observedGeneration")) == ("True", generation), seen
        return found

    await client.wait(f"jsonserver/{NAME}", "--for=condition=Verified")
    return await eventually(probe, within=180)


@pytest.fixture
async def served(shared_client) -> KubectlClient:
    """A namespace with the example of the design."""
    shared_client.apply(a_jsonserver(NAME, DATA, replicas=2))
    await wait_until_ready(shared_client)
    return shared_client


@pytest.fixture(scope="module")
def cases(operator) -> Iterator[dict[str, KubectlClient]]:
    """Namespaces with JsonServers that start together, one per test."""
    made = {name: new_namespace(operator, *objects) for name, objects in CASES.items()}
    yield made
    for each in made.values():
        remove_namespace(each)


async def test_tc_01_created_jsonserver_serves_its_data_unchanged(served):
    found = served.get("jsonserver", NAME)
    assert (found["status"]["state"], found["status"]["message"]) == ("Synced", "Synced successfully!")
    assert (found["status"]["replicas"], found["status"]["readyReplicas"]) == (2, 2)
    pods = served.pods(NAME)
    assert [pod["status"]["phase"] for pod in pods] == ["Running", "Running"]
    assert restart_counts(served) == [0, 0]
    assert {pod["metadata"]["labels"]["app"] for pod in pods} == {NAME}
    assert served.get("configmap", NAME)["data"] == {"db.json": DATA}
    assert served.send_request(first_pod(served), url(served)) == (200, DATA), (
        "through the Service, by its name"
    )
    with served.port_forward(NAME) as base:
        assert fetch(f"{base}/db").decode() == DATA, "through port-forward"


@pytest.mark.exhaustive
async def test_tc_05_changed_replicas_give_serving_pods(served):
    for replicas in (3, 1):
        served.kubectl(
            "patch", "jsonserver", NAME, "--type=merge", "-p", f'{{"spec":{{"replicas":{replicas}}}}}'
        )
        found = await wait_until_ready(served)
        assert found["status"]["readyReplicas"] == replicas
        assert len(served.pods(NAME)) == replicas
    served.kubectl("scale", "jsonserver", NAME, "--replicas=2")
    assert (await wait_until_ready(served))["status"]["readyReplicas"] == 2
    served.kubectl("scale", "jsonserver", NAME, "--replicas=0")

    def assert_none_left() -> None:
        assert served.pods(NAME) == []
        assert find_condition(served.get("jsonserver", NAME), "Ready")["reason"] == "ScaledToZero"

    await eventually(assert_none_left, within=120)


async def test_tc_06_every_pod_serves_changed_data(served):
    before = {pod["metadata"]["name"] for pod in served.pods(NAME)}
    served.apply(a_jsonserver(NAME, OTHER, replicas=2))
    await wait_until_ready(served)
    pods = served.pods(NAME)
    assert len(pods) == 2
    assert not before & {pod["metadata"]["name"] for pod in pods}, "pods with the old data are still there"
    for pod in pods:
        address = f"http://{pod['status']['podIP']}:3000/db"
        assert served.send_request(pod["metadata"]["name"], address) == (200, OTHER)

    def assert_served_through_service() -> None:
        for _ in range(10):
            answer = served.send_request(pods[0]["metadata"]["name"], url(served))
            assert answer == (200, OTHER), "the Service routes to an old pod"

    await eventually(assert_served_through_service, within=120)  # a Service routes to new pods with a delay


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("deployment", "/spec/template/spec/containers/0/image", "quintet.local/nowhere:1"),
        pytest.param(
            "deployment",
            "/spec/template/spec/containers/0/args",
            ["/data/other.json"],
            marks=pytest.mark.exhaustive,
        ),
        pytest.param("service", "/spec/ports/0/targetPort", 3999, marks=pytest.mark.exhaustive),
    ],
    ids=["image", "args", "the Service's port"],
)
async def test_tc_09_drift_is_reverted_and_pods_stay_healthy(served, kind, path, value):
    patch = json.dumps([{"op": "replace", "path": path, "value": value}])
    wanted = {pod["spec"]["containers"][0]["image"] for pod in served.pods(NAME)}
    served.kubectl("patch", kind, NAME, "--type=json", "-p", patch)

    def assert_restored() -> None:
        assert str(value) not in str(served.get(kind, NAME)["spec"])

    await eventually(assert_restored, within=120)

    def assert_healthy() -> None:
        pods = served.pods(NAME)
        assert {pod["spec"]["containers"][0]["image"] for pod in pods} == wanted
        assert [each["ready"] for pod in pods for each in pod["status"]["containerStatuses"]] == [True, True]
        assert served.send_request(first_pod(served), url(served)) == (200, DATA)

    await eventually(assert_healthy, within=120)
    await wait_until_ready(served)


@pytest.mark.exhaustive
async def test_tc_10_service_is_reachable_on_port_3000_from_outside(served):
    with served.port_forward(NAME) as base:
        assert json.loads(fetch(f"{base}/people")) == json.loads(DATA)["people"]
        assert json.loads(fetch(f"{base}/people/1")) == {"id": 1, "name": "Person A"}
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetch(f"{base}/people/3")


@pytest.mark.exhaustive
async def test_write_to_read_only_jsonserver_is_refused_and_pods_survive(served):
    pod = first_pod(served)
    for method, path in (
        ("POST", "people"),
        ("PUT", "people/1"),
        ("PATCH", "people/1"),
        ("DELETE", "people/1"),
    ):
        status, _ = served.send_request(pod, f"http://127.0.0.1:3000/{path}", method, '{"name": "Person C"}')
        assert status == 403, f"{method} {path} was answered with {status}"
    assert served.send_request(pod, "http://127.0.0.1:3000/db") == (200, DATA)
    assert restart_counts(served) == [0, 0]


@pytest.mark.exhaustive
async def test_ephemeral_data_is_writable_until_pod_restart(cases):
    client = cases["ephemeral"]
    await wait_until_ready(client)
    pod = first_pod(client)
    status, _ = client.send_request(pod, url(client, "people"), "POST", '{"name": "Person C"}')
    assert status == 201
    assert json.loads(client.send_request(pod, url(client, "people/3"))[1]) == {"name": "Person C", "id": 3}
    client.kubectl("delete", "pod", pod, "--wait=false")

    def assert_data_of_spec() -> None:
        assert first_pod(client) != pod
        assert client.send_request(first_pod(client), url(client)) == (200, DATA)

    await eventually(assert_data_of_spec, within=120)
    await wait_until_ready(client)


def send(address: str, body: bytes | None = None) -> tuple[int, bytes, str | None]:
    """Return status and body of an answer, and the web pages that may read it."""
    headers = {"Content-Type": "application/json", "Origin": "https://page.example.com"}
    request = urllib.request.Request(address, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read(), answer.headers["Access-Control-Allow-Origin"]
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers["Access-Control-Allow-Origin"]


async def test_options_change_what_the_server_answers(cases):
    client = cases["options"]
    await wait_until_ready(client)
    body = b'{"name": "B", "text": "%s"}'
    with client.port_forward(NAME) as base:
        for path in ("people/A", "api/people/A", "person?called=A"):
            status, answer, origin = send(f"{base}/{path}")
            assert (status, json.loads(answer), origin) == (200, {"id": 1, "name": "A"}, None), path
        assert send(f"{base}/people/1")[0] == 404
        assert send(f"{base}/people", body % (b"x" * 1024))[0] == 413
        assert send(f"{base}/people", body % b"x")[0] == 201
    client.kubectl(
        "patch", "jsonserver", NAME, "--type=merge", "-p", '{"spec":{"readOnly":true,"cors":true}}'
    )
    await wait_until_ready(client)
    with client.port_forward(NAME) as base:
        assert send(f"{base}/people", body % b"x")[0] == 403
        assert send(f"{base}/people/A")[2] == "https://page.example.com"


async def test_faults_and_delay_spare_the_probes_and_the_operator(cases):
    client = cases["unreliable"]
    await wait_until_ready(client)  # Verified: the operator has read the data
    with client.port_forward(NAME) as base:
        before = time.monotonic()
        assert send(f"{base}/people")[0] == 429
        assert time.monotonic() - before >= 1.4
        assert send(f"{base}/")[0] == 200
    assert restart_counts(client) == [0], "the probes of the kubelet succeed"


@pytest.mark.exhaustive
async def test_kubectl_wait_and_get_work_for_jsonserver(cases):
    client = cases["listed"]
    client.wait_for(NAME, "Ready")
    header, row = client.kubectl("get", "js").splitlines()
    assert header.split() == ["NAME", "STATE", "READY", "REASON", "REPLICAS", "AGE"]
    assert row.split()[:5] == [NAME, "Synced", "True", "AllReplicasAvailable", "1"]
    assert url(client, "").rstrip("/") in client.kubectl("get", "js", "-o", "wide")


@pytest.mark.exhaustive
async def test_horizontalpodautoscaler_scales_jsonserver(cases):
    client = cases["autoscaled"]
    await client.wait(f"hpa/{NAME}", "--for=condition=AbleToScale")
    await client.wait(f"jsonserver/{NAME}", "--for=jsonpath={.spec.replicas}=2")
    assert (await wait_until_ready(client))["status"]["readyReplicas"] == 2
    await client.wait(f"hpa/{NAME}", "--for=jsonpath={.status.currentReplicas}=2")


@pytest.mark.exhaustive
async def test_deleted_namespace_deletes_its_jsonservers(cases):
    client = cases["namespace"]
    await wait_until_ready(client)
    client.kubectl("delete", "namespace", client.namespace, "--timeout=240s")
    assert "NotFound" in client.expect_failure("get", "namespace", client.namespace)


@pytest.mark.exhaustive
@pytest.mark.parametrize("sample", SAMPLES)
async def test_jsonserver_sample_works_unchanged(cases, sample):
    (written,) = CASES[sample]
    name = written["metadata"]["name"]
    cases[sample].wait_for(name, "Ready")
    found = cases[sample].wait_for(name, "Verified")
    assert found["status"]["readyReplicas"] == found["spec"]["replicas"]


async def test_deleted_jsonserver_leaves_no_objects(served):
    served.kubectl("delete", "jsonserver", NAME, "--timeout=300s")
    left = served.kubectl("get", "jsonserver,deployment,service,configmap", "-l", f"app={NAME}", "-o", "name")
    assert left == ""

    def assert_no_pods() -> None:
        assert served.kubectl("get", "pods,replicasets", "-o", "name") == ""

    await eventually(assert_no_pods, within=120)


async def test_jsonserver_example_equals_sample():
    example, sample = ROOT / "examples/01-jsonserver/jsonserver.yaml", ROOT / "config/samples/jsonserver.yaml"
    assert example.read_text() == sample.read_text()


async def test_operator_log_has_no_forbidden_requests(operator):
    assert find_forbidden_requests(operator) == []
