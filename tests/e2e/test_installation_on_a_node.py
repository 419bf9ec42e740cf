"""The operator as it is installed from config/default: admission, fail-over, rights.

What becomes of a JsonServer is in test_jsonserver_on_a_node.py.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from e2e.place import Place, a_condition, refusals, webhooks_registered
from kit.eventually import eventually
from kit.kinds.jsonservers import PEOPLE, a_jsonserver

pytestmark = pytest.mark.node

WRONG_NAME = "Invalid name: must start with 'app-'."
WRONG_CONFIG = "Invalid JSON configuration."
WRONG_REPLICAS = "Invalid replicas number."
NOT_A_JSON_OBJECT = "Error: spec.jsonConfig is not a valid json object"
NO_RIGHT = "spec.image, spec.template and spec.casConfig decide what runs in pods: you need permission to create pods here"
# The webhook that fills in defaults comes before everything else, so it is the first to be missed.
NOBODY_THERE = 'failed calling webhook "mutate.jsonservers.example.com"'


def operator_pods(operator: Place) -> list[dict]:
    found = operator.get("pods", "", "-l", "app.kubernetes.io/name=quintet")["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def holder(operator: Place) -> str:
    """Who holds the lease: the name of a pod, and a mark of the process in it."""
    found = operator.get("lease", "quintet")["spec"].get("holderIdentity")
    assert found, "nobody holds the lease"
    return found


def pod_of(identity: str) -> str:
    return identity.rpartition("-")[0]


def kill_hard(operator: Place, pod: str) -> None:
    """End the operator in a pod without a chance to say good-bye; from inside nothing can."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            if f"HOSTNAME={pod}".encode() in environment and b"quintet" in (folder / "cmdline").read_bytes():
                os.kill(int(folder.name), signal.SIGKILL)
                return
    pytest.fail(f"there is no process of {pod}")


def delete(operator: Place, pod: str) -> None:
    operator.kubectl("delete", "pod", pod, "--wait=false")


def scale(operator: Place, replicas: int) -> None:
    operator.kubectl("scale", "deployment/quintet", f"--replicas={replicas}")
    operator.kubectl("rollout", "status", "deployment/quintet", "--timeout=180s")


@pytest.fixture
async def away(operator):
    """Nobody runs the operator during this test; afterwards it is back."""
    scale(operator, 0)

    def gone() -> None:
        assert operator.kubectl("get", "pods", "-o", "name") == ""

    await eventually(gone, within=120)
    yield
    scale(operator, 2)
    await webhooks_registered(operator)


async def test_both_replicas_are_ready_and_one_leads(operator):
    def ready() -> list[dict]:
        pods = operator_pods(operator)
        assert [a_condition(pod, "Ready")["status"] for pod in pods] == ["True", "True"]
        return pods

    # The tests of other files may have killed one of them just now.
    pods = await eventually(ready, within=120)
    leader = await eventually(lambda: holder(operator), within=90)
    assert pod_of(leader) in {pod["metadata"]["name"] for pod in pods}
    for pod in pods:
        name = pod["metadata"]["name"]
        assert operator.kubectl("exec", name, "--", "id", "-u").strip() == "65532"
        assert "Read-only file system" in operator.refused("exec", name, "--", "touch", "/app/new")
    await webhooks_registered(operator)


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
async def test_a_mistake_is_refused_in_the_words_of_the_design(shared_place, name, config, spec, sentence):
    assert sentence in shared_place.refused("apply", "-f", "-", input=a_jsonserver(name, config, **spec))


@pytest.mark.exhaustive
async def test_a_bad_change_is_refused_as_well(place):
    place.apply(a_jsonserver("app-x", replicas=0))
    patch = '{"spec": {"jsonConfig": "[]"}}'
    assert WRONG_CONFIG in place.refused("patch", "jsonserver", "app-x", "--type=merge", "-p", patch)


async def test_without_replicas_one_is_filled_in(place):
    place.apply(a_jsonserver("app-x"))
    found = place.get("jsonserver", "app-x")
    assert (found["spec"]["replicas"], found["metadata"]["finalizers"]) == (1, ["example.com/jsonserver"])


@pytest.mark.exhaustive
async def test_a_doubtful_thing_is_warned_of(place):
    answer = place.run("apply", "-f", "-", input=a_jsonserver("app-x", replicas=2, storage="Ephemeral"))
    assert answer.returncode == 0, answer.stderr
    assert "Warning: spec.storage: with Ephemeral storage and several replicas" in answer.stderr


@pytest.mark.exhaustive
async def test_while_nobody_is_there_only_our_own_kind_has_to_wait(place, away):
    assert NOBODY_THERE in place.refused("apply", "-f", "-", input=a_jsonserver("app-x"))
    place.kubectl("create", "configmap", "unrelated", "--from-literal=a=b")
    place.kubectl("create", "service", "clusterip", "unrelated", "--tcp=80")
    place.kubectl("delete", "configmap,service", "unrelated")
    assert place.kubectl("get", "jsonservers", "-o", "name") == ""


@pytest.mark.exhaustive
async def test_past_the_webhooks_the_api_server_and_the_controller_still_refuse(place, operator, away):
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        operator.kubectl("delete", kind, "quintet")

    def forgotten() -> None:
        place.kubectl("apply", "--dry-run=server", "-f", "-", input=a_jsonserver("app-x"))

    await eventually(forgotten, within=60)  # the API server hears of it through a watch
    assert WRONG_NAME in place.refused("apply", "-f", "-", input=a_jsonserver("my-server"))
    assert WRONG_REPLICAS in place.refused("apply", "-f", "-", input=a_jsonserver("app-x", replicas=-1))
    place.apply(a_jsonserver("app-x", '{"people": '))
    scale(operator, 2)

    def explained() -> None:
        status = place.get("jsonserver", "app-x").get("status", {})
        assert (status.get("state"), status.get("message")) == ("Error", NOT_A_JSON_OBJECT), status

    await eventually(explained, within=120)
    assert place.kubectl("get", "deployment,service", "-o", "name") == ""
    assert "configmap/app-x" not in place.kubectl("get", "configmap", "-o", "name")


@pytest.mark.parametrize("stop", [delete, pytest.param(kill_hard, marks=pytest.mark.exhaustive)])
async def test_when_the_leader_goes_another_goes_on(place, operator, stop):
    first = await eventually(lambda: holder(operator), within=90)
    place.apply(a_jsonserver("app-before"))
    place.wait_for("app-before", "Ready")
    stop(operator, pod_of(first))

    def taken_over() -> None:
        assert holder(operator) != first

    # One that was killed has not given the lease back: it has to run out first.
    await eventually(taken_over, within=120)
    place.kubectl("delete", "deployment", "app-before", "--wait=false")
    place.apply(a_jsonserver("app-after"))
    for name in ("app-before", "app-after"):
        place.wait_for(name, "Ready")
    operator.kubectl("rollout", "status", "deployment/quintet", "--timeout=180s")


async def until_may_edit(user: Place) -> None:
    """A new right takes a moment to count."""

    def allowed() -> None:
        assert user.run("auth", "can-i", "create", "jsonservers").stdout.strip() == "yes"

    await eventually(allowed, within=60)


@pytest.mark.exhaustive
async def test_who_may_not_make_pods_may_not_choose_what_runs_in_them(place):
    name = f"alice-{place.namespace}"
    place.kubectl("create", "rolebinding", "alice", "--clusterrole=jsonserver-editor", f"--user={name}")
    alice = Place(place.cluster, place.namespace, place.cluster.client_kubeconfig(name))
    await until_may_edit(alice)
    alice.apply(a_jsonserver("app-x"))
    overlay = {"spec": {"nodeSelector": {"a": "b"}}}
    for spec in ({"image": "mine:1"}, {"template": overlay}):
        said = alice.refused("apply", "-f", "-", input=a_jsonserver("app-y", **spec))
        assert NO_RIGHT in said
        assert NO_RIGHT in alice.refused("apply", "-f", "-", input=a_jsonserver("app-x", **spec))
    place.kubectl("create", "rolebinding", "alice-edits", "--clusterrole=edit", f"--user={name}")

    def allowed() -> None:
        alice.apply(a_jsonserver("app-y", template={"metadata": {"labels": {"team": "a"}}}))

    await eventually(allowed, within=60)
    place.apply(a_jsonserver("app-z", template={"metadata": {"labels": {"team": "a"}}}))
    place.wait_for("app-x", "Ready")


@pytest.mark.exhaustive
async def test_what_others_chose_can_still_be_scaled_without_that_right(place):
    name = f"bob-{place.namespace}"
    place.apply(a_jsonserver("app-x", template={"metadata": {"labels": {"team": "a"}}}))
    place.kubectl("create", "rolebinding", "bob", "--clusterrole=jsonserver-editor", f"--user={name}")
    bob = Place(place.cluster, place.namespace, place.cluster.client_kubeconfig(name))
    await until_may_edit(bob)
    bob.kubectl("scale", "jsonserver", "app-x", "--replicas=2")
    bob.kubectl("patch", "jsonserver", "app-x", "--type=merge", "-p", '{"spec": {"replicas": 3}}')


async def test_all_of_this_took_no_right_that_the_operator_does_not_have(operator):
    assert refusals(operator) == []
