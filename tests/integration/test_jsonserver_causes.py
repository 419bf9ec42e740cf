"""Why a JsonServer does not serve is in `kubectl get`, in `describe` and in one Event, with one status write.

Quotas, Pod Security, the scheduler and the controllers of Deployments are real; the tests write the pod status and
the Events of a kubelet, because there is no node.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from kit.cluster.api import APPLY, Api, RefusedError
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy, matching
from kit.kinds.jsonservers import a_jsonserver, install, jsonserver_operator, wait_for_state
from kit.manifests.pod_patches import pod_patches
from quintet.apis.jsonserver import JSONSERVERS, JsonServer, validate
from quintet.apis.jsonserver.types import FINALIZER
from quintet.apis.meta import JsonObject, Object, ObjectKey, find_condition
from quintet.controllers.jsonserver.decide import desired
from quintet.kube.client import Client
from quintet.runtime.manager import Manager

BACK_OFF = 'Back-off pulling image "x": ErrImagePull: no such image'
MOUNT = 'MountVolume.SetUp failed for volume "v" : secret "gone" not found'


@pytest.fixture(scope="module")
async def servers(client: Client) -> Client:
    await install(client)
    return client


@pytest.fixture
async def operator(servers, proxy: FaultProxy, namespace, tmp_path) -> AsyncIterator[Manager]:
    async with jsonserver_operator(proxy.write_kubeconfig(tmp_path), namespace=namespace) as manager:
        yield manager


async def create(client: Client, namespace: str, **spec: Any) -> ObjectKey:
    body = a_jsonserver("app-x", **spec)
    body["metadata"]["finalizers"] = [FINALIZER]
    await client.create(JSONSERVERS, body, Object, namespace=namespace)
    return ObjectKey(namespace, "app-x")


async def wait_for_cause(client: Client, key: ObjectKey, reason: str, words: str) -> JsonServer:
    """Wait until the condition Ready has a reason and a message with these words."""

    async def probe() -> JsonServer:
        server = await client.get(JSONSERVERS, key, JsonServer)
        ready = find_condition(server.status.conditions, "Ready")
        assert ready is not None
        assert (ready.status, ready.reason) == ("False", reason), ready
        assert words in ready.message, ready
        return server

    return await eventually(probe)


async def the_pod(api: Api, namespace: str) -> JsonObject:
    """Wait for the only pod, until the scheduler has reported that there is no node for it."""

    async def probe() -> JsonObject:
        pods = (await api.get(f"/api/v1/namespaces/{namespace}/pods"))["items"]
        assert len(pods) == 1
        # Otherwise the scheduler would write its condition over that of the test.
        assert any(each["type"] == "PodScheduled" for each in pods[0]["status"].get("conditions", ()))
        return pods[0]

    return await eventually(probe)


async def write_pod_status(api: Api, pod: JsonObject, **container: Any) -> None:
    """Write the status of a pod as the kubelet of its node would."""
    meta = pod["metadata"]
    name = {"name": "json-server", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    status = {
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [{**name, **container}],
    }
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
    await api.merge(path, {"status": status})


def waiting(reason: str, message: str = "") -> JsonObject:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


async def events(api: Api, namespace: str, reason: str) -> list[JsonObject]:
    found = await api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    ours = [event for event in found["items"] if event["regarding"]["kind"] == "JsonServer"]
    return [event for event in ours if event["reason"] == reason]


async def assert_told(api: Api, cluster, key: ObjectKey, reason: str, words: str) -> None:
    """Check that get shows the reason, describe the words, and that there is one Event."""
    assert reason in cluster.kubectl("get", "js", "-n", key.namespace).stdout
    assert words in cluster.kubectl("describe", "js", key.name, "-n", key.namespace).stdout

    async def probe() -> None:
        found = await events(api, key.namespace, reason)
        assert [words in event["note"] for event in found] == [True], found

    await eventually(probe)


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        pytest.param(waiting("ErrImagePull", "no such image"), "ImagePullFailed", "no such image", id="image"),
        pytest.param(waiting("CreateContainerConfigError", 'secret "gone" not found'),
                     "ContainerNotStarted", 'secret "gone" not found', id="secret in a variable"),
    ],
)  # fmt: skip
async def test_cause_of_kubelet_is_told(
    status, reason, words, operator, servers: Client, api: Api, cluster, namespace
):
    key = await create(servers, namespace)
    await write_pod_status(api, await the_pod(api, namespace), **status)
    await wait_for_cause(servers, key, reason, words)
    await assert_told(api, cluster, key, reason, words)


async def test_unschedulable_pod_is_told(operator, servers: Client, api: Api, cluster, namespace):
    key = await create(servers, namespace, template={"spec": {"nodeSelector": {"none": "such"}}})
    await wait_for_cause(servers, key, "Unschedulable", "nodes")
    await assert_told(api, cluster, key, "Unschedulable", "cannot be scheduled")


async def test_quota_is_told_and_its_end_too(operator, servers: Client, api: Api, cluster, namespace):
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    await api.create(path, {"metadata": {"name": "tight"}, "spec": {"hard": {"pods": "0"}}})

    async def assert_enforced() -> None:
        pod = {"metadata": {"generateName": "probe-"}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
        with pytest.raises(RefusedError, match="exceeded quota: tight"):
            await api.create(f"/api/v1/namespaces/{namespace}/pods", pod, dryRun="All")

    await eventually(assert_enforced, within=60)
    key = await create(servers, namespace)
    await wait_for_cause(servers, key, "PodNotCreated", "exceeded quota: tight")
    await assert_told(api, cluster, key, "PodNotCreated", "exceeded quota: tight")


async def test_pod_security_is_told(operator, servers: Client, api: Api, cluster, namespace):
    level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await api.merge(f"/api/v1/namespaces/{namespace}", level)
    container = {
        "name": "json-server",
        "securityContext": {"privileged": True, "allowPrivilegeEscalation": True},
    }
    key = await create(servers, namespace, template={"spec": {"containers": [container]}})
    await wait_for_cause(servers, key, "PodNotCreated", "violates PodSecurity")
    await assert_told(api, cluster, key, "PodNotCreated", "violates PodSecurity")


async def test_volume_that_cannot_be_mounted_is_told(operator, servers: Client, api: Api, cluster, namespace):
    key = await create(servers, namespace)
    pod = await the_pod(api, namespace)
    await write_pod_status(api, pod, **waiting("ContainerCreating"))
    meta = pod["metadata"]
    about = {
        "kind": "Pod",
        "name": meta["name"],
        "namespace": namespace,
        "uid": meta["uid"],
        "apiVersion": "v1",
    }
    event = {
        "metadata": {"generateName": "x."},
        "involvedObject": about,
        "reason": "FailedMount",
        "type": "Warning",
        "message": MOUNT,
    }
    await api.create(f"/api/v1/namespaces/{namespace}/events", event)
    await wait_for_cause(servers, key, "VolumeNotMounted", 'secret "gone" not found')
    await assert_told(api, cluster, key, "VolumeNotMounted", 'secret "gone" not found')


@pytest.mark.parametrize(
    ("phases", "reason"),
    [
        pytest.param([waiting("ErrImagePull", "no such image"), waiting("ImagePullBackOff", BACK_OFF)],
                     "ImagePullFailed", id="image pulls"),
        pytest.param([{"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off {}0s"}}},
                      {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}], "CrashLoop", id="crash loop"),
    ],
)  # fmt: skip
async def test_repetitions_of_a_cause_write_no_status(
    phases, reason, operator, servers: Client, api: Api, proxy: FaultProxy, namespace
):
    key = await create(servers, namespace)
    await wait_for_state(servers, key, "Synced")
    pod = await the_pod(api, namespace)
    last = {"terminated": {"exitCode": 1, "reason": "Error"}} if reason == "CrashLoop" else {}
    for count in range(10):
        for phase in phases:
            text = json.loads(json.dumps(phase).replace("{}", str(count)))
            await write_pod_status(api, pod, **text, restartCount=count + 1, lastState=last)
        if count == 0:
            await wait_for_cause(servers, key, reason, "")
            await proxy.quiet(0.5)
            mark = proxy.trace.mark()
    await proxy.quiet(0.5)
    writes = proxy.trace.requests(matching("patch", "jsonservers", subresource="status"), since=mark)
    assert writes == [], f"\n{proxy.trace}"
    assert len(await events(api, namespace, reason)) == 1


async def test_repaired_child_is_an_event_with_the_field_manager(
    operator, servers: Client, cluster, api: Api, namespace
):
    key = await create(servers, namespace)
    await wait_for_state(servers, key, "Synced")
    cluster.kubectl("scale", "deployment", key.name, "--replicas=3", "-n", namespace)

    async def assert_repaired() -> None:
        notes = [event["note"] for event in await events(api, namespace, "Repaired")]
        want = "Deployment app-x: restored spec.replicas (changed by kubectl)"
        assert notes == [want], notes
        assert (await servers.get(desired.DEPLOYMENTS, key, dict))["spec"]["replicas"] == 1

    await eventually(assert_repaired)


async def test_recreated_child_is_an_event(operator, servers: Client, api: Api, namespace):
    key = await create(servers, namespace)
    await wait_for_state(servers, key, "Synced")
    await servers.delete(desired.SERVICES, key)

    async def assert_recreated() -> None:
        notes = [event["note"] for event in await events(api, namespace, "Recreated")]
        assert notes == ["Service app-x was deleted by another client and is created again"], notes

    await eventually(assert_recreated)


async def test_replicas_are_true_while_there_is_a_problem(operator, servers: Client, namespace):
    key = await create(servers, namespace, replicas=3)

    async def assert_three() -> JsonServer:
        server = await servers.get(JSONSERVERS, key, JsonServer)
        assert server.status.replicas == 3, server.status
        return server

    await eventually(assert_three)
    # There are no webhooks, so it bypasses them.
    await servers.patch(JSONSERVERS, key, {"spec": {"jsonConfig": "not json"}}, Object)
    await wait_for_state(servers, key, "Error")
    await assert_three()


async def test_template_that_bypassed_the_webhook_sets_error_and_children_are_still_repaired(
    operator, servers: Client, namespace
):
    key = await create(servers, namespace)
    await wait_for_state(servers, key, "Synced")
    spec = {"containers": [{"name": "json-server", "volumeMounts": ["x"]}]}
    await servers.patch(JSONSERVERS, key, {"spec": {"template": {"spec": spec}}}, Object)
    server = await wait_for_state(servers, key, "Error")
    assert "containers[0].volumeMounts[0]" in server.status.message
    await servers.patch(JSONSERVERS, key, {"spec": {"template": None}}, Object)
    await wait_for_state(servers, key, "Synced")


async def _check_template(api: Api, namespace: str, patch: JsonObject) -> str:
    """Return how the API server answers to the Deployment of an admitted template, created and then applied."""
    body = a_jsonserver("app-x", template={"spec": patch})
    body["metadata"] |= {"namespace": namespace, "uid": "u"}
    if validate(body).errors:
        return "refused at admission"
    deployment = desired.deployment(msgspec.convert(body, JsonServer), "image")
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    try:
        await api.create(path, deployment, dryRun="All", fieldValidation="Strict")
        query = {"dryRun": "All", "fieldManager": "test", "force": "true"}
        await api.send("PATCH", f"{path}/app-x", deployment, APPLY, query)
    except RefusedError as refusal:
        error = refusal
    else:
        return "accepted"
    assert error.code == 422, f"{error}\n{deployment}"
    causes = error.status["details"]["causes"]
    assert all(cause["field"].startswith("spec.template") for cause in causes), f"{error}\n{deployment}"
    return "refused with its field"


async def _check_templates(api: Api, namespace: str, examples: int) -> dict[str, int]:
    patches: list[JsonObject] = []

    @settings(max_examples=examples, database=None, suppress_health_check=list(HealthCheck))
    @given(pod_patches())
    def collect(patch: JsonObject) -> None:
        patches.append(patch)

    collect()
    seen: dict[str, int] = {}
    for patch in patches:
        answer = await _check_template(api, namespace, patch)
        seen[answer] = seen.get(answer, 0) + 1
    return seen


async def test_admitted_templates_are_accepted_or_refused_with_their_field(api: Api, namespace):
    seen = await _check_templates(api, namespace, 200)
    assert seen["accepted"] > 20, seen


@pytest.mark.exhaustive
async def test_many_admitted_templates_are_accepted_or_refused_with_their_field(api: Api, namespace):
    seen = await _check_templates(api, namespace, 3_000)
    assert seen["accepted"] > 300, seen
