"""Checkups with real pods: the example of the design, every verdict, many at once, and killed processes.

All cases start together, because most of their time is waiting.
"""

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.checkup_cases import CASES, ESSENTIAL, NOWHERE, REASON, TO_RUN
from e2e.checkups import PASSED, Case, a_checkup, create_checkup_namespace
from e2e.kubectl_client import ROOT, KubectlClient, find_forbidden_requests, wait_for_webhooks
from e2e.node_containerd import NodeContainerd
from e2e.test_installation_on_a_node import kill_operator, lease_holder, pod_name_of
from kit.eventually import eventually
from quintet.local.images import catalog

pytestmark = pytest.mark.node

SEED = ROOT / "config/samples/checkup.yaml"
# The image of the design; on this node, an image of the project with the same contract.
SEED_IMAGE = "quay.io/kiagnose/echo-checkup:main"
EXAMPLE = ROOT / "examples/05-checkup"
NAMESPACES, EACH = 4, 5


@pytest.fixture(scope="module")
def cases(operator, request) -> Iterator[dict[str, Case]]:
    """Start every case; only the essential ones if no exhaustive test was selected."""
    mark = uuid.uuid4().hex[:6]
    selected = [item for item in request.session.items if item.path == request.path]
    names = CASES if any(item.get_closest_marker("exhaustive") for item in selected) else ESSENTIAL
    made = {
        name: Case(create_checkup_namespace(operator, f"{name}-{mark}", *besides, checkup), name)
        for name, (checkup, besides) in ((name, CASES[name]) for name in names)
    }
    yield made
    for case in made.values():
        case.client.run("delete", "namespace", case.client.namespace, "--wait=false")


@pytest.fixture
def here(operator) -> Iterator[KubectlClient]:
    """A new namespace with a ServiceAccount for checkups."""
    client = create_checkup_namespace(operator, f"test-{uuid.uuid4().hex[:8]}")
    yield client
    client.run("delete", "namespace", client.namespace, "--wait=false")


async def wait_until_example_passes(case: Case) -> None:
    """Wait until the example passes in its timeout of one second; rerun it on a busy machine."""
    for attempt in range(1, 6):

        def find_finished_run(number: int = attempt) -> dict[str, Any]:
            status = case.status
            assert status.get("run") == number, status
            assert status.get("verdict"), status
            return status

        status = await eventually(find_finished_run, within=90)
        if status["verdict"] != "TimedOut":
            return
        case.client.kubectl("annotate", "checkup", case.name, f"kiagnose.io/rerun={attempt}", "--overwrite")


async def test_checkup_example_of_the_design_runs_unchanged(node, operator):
    NodeContainerd(node).tag_image(catalog.ECHO, SEED_IMAGE)
    client = operator.in_namespace("echo-test")
    answer = client.run("apply", "-f", str(SEED))
    assert answer.returncode == 0, answer.stderr
    assert "Warning: spec.timeout is deprecated and was replaced: use spec.timeoutSeconds" in answer.stderr
    case = Case(client, "echo-checkup-config")
    await wait_until_example_passes(case)
    client.kubectl("wait", "checkup/echo-checkup-config", "--for=condition=Succeeded", "--timeout=30s")
    status = case.status
    assert json.loads(status["results"]) == status["resultMap"] == {"echo": "Hi!"}
    found = case.condition("Succeeded")
    assert (found["status"], found["message"]) == ("True", PASSED)
    assert status["verdict"] == "Passed"
    assert status["startTime"] <= status["completionTime"]
    assert case.object["spec"]["timeoutSeconds"] == 1
    header, row = client.kubectl("get", "ckup").splitlines()
    assert header.split() == ["NAME", "VERDICT", "REASON", "DURATION", "AGE"]
    assert row.split()[:2] == ["echo-checkup-config", "Passed"]
    client.kubectl("delete", "namespace", "echo-test", "--timeout=180s")


async def test_checkup_that_succeeds_reports_results_and_times(cases):
    status = await cases["passed"].wait_for_verdict()
    assert (status["verdict"], status["message"]) == ("Passed", PASSED)
    assert status["resultMap"] == {"echo": "Hi!"}
    assert cases["passed"].condition("Failed").get("status") != "True"


@pytest.mark.exhaustive
async def test_checkup_image_with_configmap_contract_runs_unchanged(cases):
    case = cases["configmap"]
    status = await case.wait_for_verdict()
    assert (status["verdict"], status["resultMap"]) == ("Passed", {"echo": "Hi!"})
    data = case.client.get("configmap", status["configMap"])["data"]
    assert (data["spec.param.message"], data["spec.timeout"]) == ("Hi!", "120s")
    assert data["status.startTimestamp"] <= data["status.completionTimestamp"]


@pytest.mark.exhaustive
async def test_rerun_of_configmap_checkup_gets_fresh_configmap(cases):
    case = cases["configmap"]
    first = await case.wait_for_verdict()
    case.client.kubectl("annotate", "checkup", case.name, "kiagnose.io/rerun=again")

    def find_second_run() -> dict:
        status = case.status
        assert (status["run"], status.get("verdict")) == (2, "Passed"), status
        return status

    status = await eventually(find_second_run, within=120)
    assert status["configMap"] != first["configMap"]
    assert [(each["run"], each["verdict"]) for each in status["history"]] == [(1, "Passed")]


async def test_failed_checkup_reports_failure_reason(cases):
    status = await cases["failed"].wait_for_verdict()
    assert (status["verdict"], status["failureReason"]) == ("Failed", REASON)
    found = cases["failed"].condition("Failed")
    assert found["status"] == "True"
    assert REASON in found["message"]
    assert f"failed: {REASON}" in str(status["evidence"]["logs"])


@pytest.mark.exhaustive
async def test_checkup_with_missing_parameter_reports_next_step(cases):
    status = await cases["input"].wait_for_verdict()
    assert status["verdict"] == "Failed"
    assert status["failureReason"] == "input: parameter message is missing; add it to spec.params"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "reason", "cause"),
    [
        ("silent", "SucceededMissing", "results: succeeded field is missing"),
        ("crash", "ContainerFailed", "exit code 3"),
        ("greedy", "ContainerFailed", "exit code 137 (OOMKilled)"),
    ],
    ids=["it says nothing", "it crashes", "it takes too much memory"],
)
async def test_checkup_with_broken_image_fails_with_cause(cases, name, reason, cause):
    status = await cases[name].wait_for_verdict()
    assert (status["verdict"], status["reason"]) == ("Failed", reason)
    assert cause in status["message"]
    assert "; next: " in status["message"]
    if name == "crash":
        assert status["evidence"]["logs"][0]["tail"] == "about to crash\n"


@pytest.mark.exhaustive
async def test_checkup_with_deleted_pod_ends_with_infra_error(cases):
    case = cases["pod-deleted"]
    await case.wait_until_running()
    (pod,) = case.client.get("pods")["items"]
    case.client.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    status = await case.wait_for_verdict()
    assert (status["verdict"], status["reason"]) == ("InfraError", "PodLost"), status
    assert status["message"].endswith("; next: rerun")
    assert len(case.client.get("jobs")["items"]) == 1


@pytest.mark.exhaustive
async def test_hanging_checkup_times_out_and_keeps_log(cases):
    status = await cases["timed-out"].wait_for_verdict()
    assert status["verdict"] == "TimedOut", status
    assert f"it ran for more than {TO_RUN} s; next: " in status["message"]
    assert "raise spec.timeoutSeconds" in status["message"]
    (log,) = status["evidence"]["logs"]
    assert log["container"] == "checkup"
    assert "waiting 3600 seconds before saying 'Hi!'" in log["tail"]
    assert status["resultMap"] == {"waiting": "3600"}, "partial results are kept"
    assert cases["timed-out"].condition("Failed")["status"] == "True"

    def assert_reported() -> None:
        client = cases["timed-out"].client
        found = client.get("events", "", "--field-selector=involvedObject.kind=Checkup")["items"]
        # On a busy node, the status may first have reported why the pod did not start.
        verdicts = [each["message"] for each in found if each["reason"] == "TimedOut"]
        assert verdicts == [status["message"]], found

    await eventually(assert_reported, within=60)

    def assert_stopped() -> None:
        phases = [pod["status"]["phase"] for pod in cases["timed-out"].client.get("pods")["items"]]
        assert "Running" not in phases

    await eventually(assert_stopped, within=90)


@pytest.mark.exhaustive
async def test_running_checkup_can_be_cancelled(cases):
    case = cases["cancelled"]
    await case.wait_until_running()
    case.client.kubectl("annotate", "checkup", case.name, "kiagnose.io/cancel=true")
    status = await case.wait_for_verdict(within=60)
    assert status["verdict"] == "Cancelled", status
    assert "kiagnose.io/cancel" in status["message"]


@pytest.mark.exhaustive
async def test_checkup_deleted_while_running_leaves_no_objects(cases):
    case = cases["deleted"]
    await case.wait_until_running()
    assert {each.partition("/")[0].partition(".")[0] for each in case.remaining_objects()} == {
        "job",
        "pod",
        "configmap",
        "role",
        "rolebinding",
    }
    case.client.kubectl("delete", "checkup", case.name, "--timeout=120s")

    def assert_nothing_left() -> None:
        assert case.remaining_objects() == set()

    await eventually(assert_nothing_left, within=90)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "cause", "next_step"),
    [
        ("bad-image", NOWHERE, "next: check spec.image"),
        ("no-account", "nobody", "next: create it"),
        ("quota", "exceeded quota: none", "next: fix the cause in the message (a quota,"),
        ("security", 'violates PodSecurity "restricted', "next: fix the cause in the message"),
        ("no-node", "0/1 nodes are available", "next: make room on the nodes, or relax spec.template"),
        ("no-program", "/no/such/program", "next: fix the cause in the message"),
    ],
    ids=[
        "the image cannot be pulled",
        "the ServiceAccount is not there",
        "the quota is used up",
        "Pod Security forbids the pod",
        "no node fits",
        "the image has no such program",
    ],
)
async def test_checkup_that_cannot_start_reports_cause_and_next_step(cases, name, cause, next_step):
    status = await cases[name].wait_for_verdict()
    assert status["verdict"] == "InfraError", status
    assert cause in status["message"]
    assert next_step in status["message"]
    found = cases[name].condition("Failed")
    assert (found["status"], found["message"]) == ("True", status["message"])


@pytest.mark.exhaustive
async def test_checkup_with_invalid_pod_template_reports_field(cases):
    status = await cases["template"].wait_for_verdict()
    assert status["verdict"] == "Invalid", status
    assert "cannot set `allowPrivilegeEscalation` to false and `privileged` to true" in status["message"]
    assert "next: correct spec.template" in status["message"]


@pytest.mark.exhaustive
async def test_invalid_checkup_that_bypassed_the_webhook_creates_nothing(here, operator):
    wrong = a_checkup("invalid", params='{"message": ')
    assert "spec.params" in here.expect_failure("apply", "-f", "-", input=wrong)

    def assert_accepted_without_webhooks() -> None:
        operator.run("delete", "validatingwebhookconfiguration", "quintet")
        here.apply(wrong)

    await eventually(assert_accepted_without_webhooks, within=60)
    await wait_for_webhooks(operator)
    case = Case(here, "invalid")
    status = await case.wait_for_verdict()
    assert status["verdict"] == "Invalid", status
    assert "spec.params: Invalid value" in status["message"]
    assert "line 1" in status["message"]
    assert case.remaining_objects() == set()


@pytest.mark.exhaustive
async def test_cluster_basics_checkup_measures_cluster(cases):
    status = await cases["basics"].wait_for_verdict()
    assert status["verdict"] == "Passed", status
    results = status["resultMap"]
    assert results["apiServerVersion"] == cases["basics"].client.cluster.version
    for name in ("dnsMedianMs", "dnsMaxMs", "apiServerMedianMs", "apiServerMaxMs"):
        assert float(results[name]) > 0
    left_out = "left out: the ServiceAccount may not"
    assert results["nodes"].startswith(left_out)
    assert results["service"].startswith(left_out)


@pytest.mark.exhaustive
def test_checkup_example_runs_three_checkups(here, tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_bytes(here.cluster.kubeconfig.read_bytes())
    environment = here.cluster.environment | {"KUBECONFIG": str(kubeconfig)}
    environment["PATH"] = f"{here.cluster.programs}{os.pathsep}{os.environ['PATH']}"
    here.run("config", "set-context", "--current", f"--kubeconfig={kubeconfig}")
    nodes = (EXAMPLE / "nodes.yaml").read_text().replace("namespace: default", f"namespace: {here.namespace}")
    here.apply(nodes)
    try:
        done = subprocess.run([EXAMPLE / "run"], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    finally:
        here.run("delete", "-f", "-", input=nodes)
    assert 'what echo says:           {"echo": "Hi!"}' in done.stdout
    assert f"why echo-fails failed:    {REASON}" in done.stdout
    results = json.loads(done.stdout.partition("what cluster-basics sees: ")[2])
    assert (results["nodes"], results["nodesReady"], results["service"]) == ("1", "1", "answered")
    assert float(results["serviceMedianMs"]) > 0
    assert float(results["serviceReadyMs"]) > 0
    assert here.kubectl("get", "services", "-o", "name") == "", "its Service is gone again"


@pytest.mark.exhaustive
async def test_checkup_sample_with_every_field_runs(here):
    here.kubectl("apply", "-f", str(ROOT / "config/samples/checkup-every-field.yaml"))
    here.kubectl("wait", "checkup/every-field", "--for=condition=Succeeded", "--timeout=180s")
    (pod,) = here.get("pods")["items"]
    assert pod["metadata"]["labels"]["team"] == "network"
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"memory": "64Mi"}


@pytest.mark.exhaustive
async def test_twenty_checkups_in_several_namespaces_pass(operator):
    kinds = (catalog.ECHO, catalog.ECHO_CONFIGMAP)
    clients = []
    try:
        for _ in range(NAMESPACES):
            name = f"crowd-{uuid.uuid4().hex[:8]}"
            crowd = [
                a_checkup(f"echo-{number}", kinds[number % 2], params={"message": f"{name}/{number}"})
                for number in range(EACH)
            ]
            clients.append(create_checkup_namespace(operator, name, *crowd))
        for client in clients:
            client.kubectl("wait", "checkup", "--all", "--for=condition=Succeeded", "--timeout=180s")
            for found in client.get("checkups")["items"]:
                number = found["metadata"]["name"].removeprefix("echo-")
                assert found["status"]["resultMap"] == {"echo": f"{client.namespace}/{number}"}
            assert len(client.get("jobs")["items"]) == EACH
            assert len(client.get("pods")["items"]) == EACH
    finally:
        for client in clients:
            client.run("delete", "namespace", client.namespace, "--wait=false")


@pytest.mark.exhaustive
async def test_controller_killed_during_run_creates_no_second_job(here, operator):
    here.apply(a_checkup("survivor", params={"message": "Hi!", "delay": "20"}))
    case = Case(here, "survivor")

    def published() -> str:
        status = case.status
        assert status.get("resultMap", {}).get("waiting") == "20", status
        return status["jobUid"]

    job = await eventually(published, within=120)
    kill_operator(operator, pod_name_of(lease_holder(operator)))
    status = await case.wait_for_verdict(within=120)
    assert (status["verdict"], status["resultMap"]["echo"]) == ("Passed", "Hi!")
    assert [each["metadata"]["uid"] for each in here.get("jobs")["items"]] == [job]
    assert len(here.get("pods")["items"]) == 1
    operator.kubectl("rollout", "status", "deployment/quintet", "--timeout=120s")


async def test_operator_log_has_no_forbidden_requests(operator):
    assert find_forbidden_requests(operator) == []
