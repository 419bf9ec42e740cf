"""The operator installed from config/default: admission, failover and permissions."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from e2e.kubectl_client import KubectlClient, find_condition, find_forbidden_requests, wait_for_webhooks
from kit.eventually import eventually
from kit.kinds.jsonservers import PEOPLE, a_jsonserver

pytestmark = pytest.mark.node

WRONG_NAME = "Invalid name: must start with 'app-'."
WRONG_CONFIG = "Invalid JSON configuration."
WRONG_REPLICAS = "Invalid replicas number."
NOT_A_JSON_OBJECT = "Error: spec.jsonConfig is not a valid json object"
NO_RIGHT = "spec.image, spec.template and spec.casConfig decide what runs in pods: you need permission to create pods here"
# The defaulting webhook is called first, so its outage is reported.
NOBODY_THERE = 'failed calling webhook "mutate.jsonservers.example.com"'


def operator_pods(operator: KubectlClient) -> list[dict]:
    found = operator.get("pods", "", "-l", "app.kubernetes.io/name=quintet")["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def lease_holder(operator: KubectlClient) -> str:
    """Return the lease holder: the name of a pod and an id of its process."""
    found = operator.get("lease", "quintet")["spec"].get("holderIdentity")
    assert found, "nobody holds the lease"
    return found


def pod_name_of(identity: str) -> str:
    return identity.rpartition("-")[0]


def kill_operator(operator: KubectlClient, pod: str) -> None:
    """Kill the operator in a pod with SIGKILL, from outside the container."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            if f"HOSTNAME={pod}".encode() in environment and b"quintet" in (folder / "cmdline").read_bytes():
                os.kill(int(folder.name), signal.SIGKILL)
                return
    pytest.fail(f"there is no process of {pod}")


def delete(operator: KubectlClient, pod: str) -> None:
    operator.kubectl("delete", "pod", pod, "--wait=false")


def scale(operator: KubectlClient, replicas: int) -> None:
    operator.kubectl("scale", "deployment/quintet", f"--replicas={replicas}")
    operator.kubectl("rollout", "status", "deployment/quintet", "--timeout=180s")


@pytest.fixture
async def operator_stopped(operator):
    """Stop the operator for the duration of the test."""
    scale(operator, 0)

    def assert_deleted() -> None:
        assert operator.kubectl("get", "pods", "-o", "name") == ""

    await eventually(assert_deleted, within=120)
    yield
    scale(operator, 2)
    await wait_for_webhooks(operator)


async def test_operator_replicas_are_ready_and_one_leads(operator):
    def ready() -> list[dict]:
        pods = operator_pods(operator)
        assert [find_condition(pod, "Ready")["status"] for pod in pods] == ["True", "True"]
        return pods

    # A test of another file may just have killed one of them.
    pods = await eventually(ready, within=120)
    leader = await eventually(lambda: lease_holder(operator), within=90)
    assert pod_name_of(leader) in {pod["metadata"]["name"] for pod in pods}
    for pod in pods:
        name = pod["metadata"]["name"]
        assert operator.kubectl("exec", name, "--", "id", "-u").strip() == "65532"
        assert "Read-only file system" in operator.expect_failure("exec", name, "--", "touch", "/app/new")
    await wait_for_webhooks(operator)


@pytest.mark.parametrize(
    ("name", "config", "spec", "sentence"),
    [
        ("my-server", PEOPLE, {}, WRONG_NAME),
        ("app-x", '{"people": ', {}, WRONG_CONFIG),
        ("app-x", "null", {}, WRONG_CONFIG),
        ("app-x", PEOPLE, {"replicas": -1}, WRONG_REPLICAS),
    ],
    ids=["TC-03 name", "TC-04 malformed", "TC-04 null", "TC-11 replicas"],
)
async def test_invalid_jsonserver_is_rejected_with_prescribed_message(
    shared_client, name, config, spec, sentence
):
    assert sentence in shared_client.expect_failure(
        "apply", "-f", "-", input=a_jsonserver(name, config, **spec)
    )


@pytest.mark.exhaustive
async def test_invalid_jsonserver_update_is_rejected(client):
    client.apply(a_jsonserver("app-x", replicas=0))
    patch = '{"spec": {"jsonConfig": "[]"}}'
    assert WRONG_CONFIG in client.expect_failure("patch", "jsonserver", "app-x", "--type=merge", "-p", patch)


async def test_jsonserver_without_replicas_defaults_to_one(client):
    client.apply(a_jsonserver("app-x"))
    found = client.get("jsonserver", "app-x")
    assert (found["spec"]["replicas"], found["metadata"]["finalizers"]) == (1, ["example.com/jsonserver"])


@pytest.mark.exhaustive
async def test_questionable_jsonserver_is_accepted_with_warning(client):
    answer = client.run("apply", "-f", "-", input=a_jsonserver("app-x", replicas=2, storage="Ephemeral"))
    assert answer.returncode == 0, answer.stderr
    assert "Warning: spec.storage: with Ephemeral storage and several replicas" in answer.stderr


@pytest.mark.exhaustive
async def test_webhook_outage_blocks_only_quintet_kinds(client, operator_stopped):
    assert NOBODY_THERE in client.expect_failure("apply", "-f", "-", input=a_jsonserver("app-x"))
    client.kubectl("create", "configmap", "unrelated", "--from-literal=a=b")
    client.kubectl("create", "service", "clusterip", "unrelated", "--tcp=80")
    client.kubectl("delete", "configmap,service", "unrelated")
    assert client.kubectl("get", "jsonservers", "-o", "name") == ""


@pytest.mark.exhaustive
async def test_invalid_jsonserver_that_bypassed_the_webhook_is_not_served(client, operator, operator_stopped):
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        operator.kubectl("delete", kind, "quintet")

    def assert_webhooks_removed() -> None:
        client.kubectl("apply", "--dry-run=server", "-f", "-", input=a_jsonserver("app-x"))

    await eventually(assert_webhooks_removed, within=60)  # the API server learns of it through a watch
    assert WRONG_NAME in client.expect_failure("apply", "-f", "-", input=a_jsonserver("my-server"))
    assert WRONG_REPLICAS in client.expect_failure(
        "apply", "-f", "-", input=a_jsonserver("app-x", replicas=-1)
    )
    client.apply(a_jsonserver("app-x", '{"people": '))
    scale(operator, 2)

    def assert_status_explains() -> None:
        status = client.get("jsonserver", "app-x").get("status", {})
        assert (status.get("state"), status.get("message")) == ("Error", NOT_A_JSON_OBJECT), status

    await eventually(assert_status_explains, within=120)
    assert client.kubectl("get", "deployment,service", "-o", "name") == ""
    assert "configmap/app-x" not in client.kubectl("get", "configmap", "-o", "name")


@pytest.mark.parametrize("stop", [delete, pytest.param(kill_operator, marks=pytest.mark.exhaustive)])
async def test_standby_takes_over_when_leader_stops(client, operator, stop):
    first = await eventually(lambda: lease_holder(operator), within=90)
    client.apply(a_jsonserver("app-before"))
    client.wait_for("app-before", "Ready")
    stop(operator, pod_name_of(first))

    def assert_new_leader() -> None:
        assert lease_holder(operator) != first

    # A killed leader does not release its lease, which must expire first.
    await eventually(assert_new_leader, within=120)
    client.kubectl("delete", "deployment", "app-before", "--wait=false")
    client.apply(a_jsonserver("app-after"))
    for name in ("app-before", "app-after"):
        client.wait_for(name, "Ready")
    operator.kubectl("rollout", "status", "deployment/quintet", "--timeout=180s")


async def wait_for_edit_permission(user: KubectlClient) -> None:
    """Wait until a new permission is effective."""

    def assert_allowed() -> None:
        assert user.run("auth", "can-i", "create", "jsonservers").stdout.strip() == "yes"

    await eventually(assert_allowed, within=60)


@pytest.mark.exhaustive
async def test_user_without_pod_permission_cannot_choose_image(client):
    name = f"alice-{client.namespace}"
    client.kubectl("create", "rolebinding", "alice", "--clusterrole=jsonserver-editor", f"--user={name}")
    alice = KubectlClient(client.cluster, client.namespace, client.cluster.client_kubeconfig(name))
    await wait_for_edit_permission(alice)
    alice.apply(a_jsonserver("app-x"))
    overlay = {"spec": {"nodeSelector": {"a": "b"}}}
    for spec in ({"image": "mine:1"}, {"template": overlay}):
        said = alice.expect_failure("apply", "-f", "-", input=a_jsonserver("app-y", **spec))
        assert NO_RIGHT in said
        assert NO_RIGHT in alice.expect_failure("apply", "-f", "-", input=a_jsonserver("app-x", **spec))
    client.kubectl("create", "rolebinding", "alice-edits", "--clusterrole=edit", f"--user={name}")

    def assert_allowed() -> None:
        alice.apply(a_jsonserver("app-y", template={"metadata": {"labels": {"team": "a"}}}))

    await eventually(assert_allowed, within=60)
    client.apply(a_jsonserver("app-z", template={"metadata": {"labels": {"team": "a"}}}))
    client.wait_for("app-x", "Ready")


@pytest.mark.exhaustive
async def test_user_without_pod_permission_can_scale_jsonserver(client):
    name = f"bob-{client.namespace}"
    client.apply(a_jsonserver("app-x", template={"metadata": {"labels": {"team": "a"}}}))
    client.kubectl("create", "rolebinding", "bob", "--clusterrole=jsonserver-editor", f"--user={name}")
    bob = KubectlClient(client.cluster, client.namespace, client.cluster.client_kubeconfig(name))
    await wait_for_edit_permission(bob)
    bob.kubectl("scale", "jsonserver", "app-x", "--replicas=2")
    bob.kubectl("patch", "jsonserver", "app-x", "--type=merge", "-p", '{"spec": {"replicas": 3}}')


async def test_operator_log_has_no_forbidden_requests(operator):
    assert find_forbidden_requests(operator) == []
