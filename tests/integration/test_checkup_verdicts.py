"""Each verdict of a Checkup, with the exact cause and the next step.

Quotas, Pod Security, scheduler and Job controller are real; the tests write the pod status of a kubelet (see
kit/kinds/checkups.py), because there is no node.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kit.cluster.api import Api, RefusedError
from kit.cluster.objects import exists
from kit.eventually import eventually
from kit.faults.proxy import Answer, FaultProxy, matching
from kit.kinds.checkups import (
    CHILD_TYPES,
    PASSED,
    PATIENT,
    SimulatedPod,
    an_operator,
    create,
    create_service_account,
    get,
    run_name,
    run_to_success,
    wait_for_reason,
    wait_for_verdict,
    write_results,
)
from quintet.apis.checkup import CHECKUPS
from quintet.apis.meta import Object, ObjectKey, find_condition
from quintet.controllers.checkup.decide import desired
from quintet.kube.client import PODS, Client
from quintet.kube.errors import Invalid

# In the operator's time, which runs fast after Kubernetes has reported on the pod.
TO_START = 60
CONTAINERS = [{"name": "x", "image": "x"}]
PROBE = {"metadata": {"generateName": "probe-"}}
OF_NOTHING = {
    "configmaps": ("/api/v1", {}),
    "pods": ("/api/v1", {"spec": {"containers": CONTAINERS}}),
    "roles": ("/apis/rbac.authorization.k8s.io/v1", {}),
    "jobs": ("/apis/batch/v1", {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}}}}),
}  # fmt: skip


async def wait_until_rejected(api: Api, namespace: str, plural: str, words: str, **spec: Any) -> None:
    """Wait until the API server rejects another object of a type; policies and quotas take effect with a delay."""
    base, body = OF_NOTHING[plural]
    tried = {**PROBE, **body, **({"spec": {**body.get("spec", {}), **spec}} if spec else {})}

    async def probe() -> None:
        with pytest.raises(RefusedError, match=words):
            await api.create(f"{base}/namespaces/{namespace}/{plural}", tried, dryRun="All")

    await eventually(probe, within=60)


async def create_empty_quota(api: Api, namespace: str, plural: str, name: str) -> None:
    """Create a quota that allows no object of a type, and wait until it takes effect."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    await api.create(path, {"metadata": {"name": "tight"}, "spec": {"hard": {name: "0"}}})
    await wait_until_rejected(api, namespace, plural, "exceeded quota: tight")


@pytest.fixture
async def patient_operator(
    checkups: Client, proxy: FaultProxy, namespace: str, tmp_path
) -> AsyncIterator[None]:
    """Like `checkup_operator`, with more time for a pod to start."""
    await create_service_account(checkups, namespace)
    async with an_operator(proxy.write_kubeconfig(tmp_path), namespace=namespace, limits=PATIENT):
        yield


@pytest.mark.parametrize(
    ("data", "code", "want_reason", "want_message"),
    [
        pytest.param(
            {"status.succeeded": "false", "status.failureReason": "check: too slow"}, 0,
            "CheckupFailed", "check: too slow", id="failure with reason",
        ),
        pytest.param(
            {"status.succeeded": "false", "status.failureReason": "input: no message"}, 2,
            "CheckupFailed", "input: no message", id="failure with reason and exit code",
        ),
        pytest.param(
            {"status.succeeded": "true"}, 1,
            "SuccessThenCrash", "reported success, but then ended with exit code 1", id="success followed by a crash",
        ),
        pytest.param({}, 0, "SucceededMissing", "results: succeeded field is missing", id="no results"),
        pytest.param(
            {"status.succeeded": "yes"}, 0, "SucceededIllegal", "results: succeeded field is illegal", id="yes",
        ),
        pytest.param(
            {"status.succeeded": "false"}, 0,
            "FailureReasonMissing", "results: failureReason field is missing", id="failure without reason",
        ),
        pytest.param({}, 3, "ContainerFailed", "exit code 3", id="crash without results"),
        pytest.param({"spec.timeout": None}, 0, "ResultsMissing", "results: ConfigMap Data is nil", id="no data in ConfigMap"),
    ],
)  # fmt: skip
async def test_failed_checkup_reports_reason_and_message(
    data, code, want_reason, want_message, checkup_operator, checkups: Client, namespace
):
    key = await create(checkups, namespace, "failing")
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.start()
    await write_results(
        checkups, key, {**data, "status.result.seen": "1"} if data and None not in data.values() else data
    )
    await pod.terminate(code)
    status = (await wait_for_verdict(checkups, key, "Failed")).status
    assert status.reason == want_reason
    assert want_message in status.message
    failed = find_condition(status.conditions, "Failed")
    assert (failed.status, failed.reason) == ("True", want_reason)
    assert find_condition(status.conditions, "Succeeded").status == "False"
    if "status.succeeded" in data:
        assert status.result_map == {"seen": "1"}, "results of a failed run are kept too"


@pytest.mark.parametrize(("code", "want"), [(0, "Passed"), (1, "Failed")])
async def test_checkup_with_running_sidecar_gets_its_verdict_and_sidecar_is_stopped(
    code, want, checkup_operator, checkups: Client, namespace
):
    sidecar = {"containers": [{"name": "proxy", "image": "x"}]}
    key = await create(checkups, namespace, "meshed", timeout=3600, template={"spec": sidecar})
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.start()
    await write_results(checkups, key, PASSED)
    await pod.end_checkup(code)
    status = (await wait_for_verdict(checkups, key, want)).status

    async def assert_stopped() -> None:
        job = await checkups.get(desired.JOBS, ObjectKey(namespace, status.job), dict[str, Any])
        assert job["spec"]["activeDeadlineSeconds"] == 1, job["spec"]

    await eventually(assert_stopped)


async def test_volume_that_cannot_be_mounted_is_told(checkup_operator, checkups: Client, api: Api, namespace):
    key = await create(checkups, namespace, "mounting", timeout=3600)
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.set_waiting("ContainerCreating")
    await pod.set_status(conditions=[{"type": "PodScheduled", "status": "True"}])
    uid = (await checkups.get(PODS, pod.key, Object)).metadata.uid
    about = {"kind": "Pod", "apiVersion": "v1", "name": pod.key.name, "namespace": namespace, "uid": uid}
    text = 'MountVolume.SetUp failed for volume "v" : secret "gone" not found'
    event = {
        "metadata": {"generateName": "x."},
        "involvedObject": about,
        "reason": "FailedMount",
        "message": text,
    }
    await api.create(f"/api/v1/namespaces/{namespace}/events", {**event, "type": "Warning"})
    status = (await wait_for_reason(checkups, key, "VolumeNotMounted")).status
    assert status.message == text


async def test_timeout_stores_log_and_stops_pod(
    patient_operator, checkups: Client, api: Api, proxy: FaultProxy, namespace
):
    # There is no kubelet that serves logs, so the proxy responds in its place.
    log = Answer(200, body="line 1\nline 2: waiting for a friend\n")
    proxy.inject(log, when=matching("get", "pods", subresource="log"), times=None)
    key = await create(checkups, namespace, "hanging", timeout=1)
    pod = await SimulatedPod.wait_for(checkups, key)
    # Before it runs: after its start it has one second, most of which may already have passed.
    await write_results(checkups, key, {"status.result.step": "2 of 3"})
    await eventually(lambda: _wait_for_event(api, namespace, "SuccessfulCreate"))
    await pod.start()
    status = (await wait_for_verdict(checkups, key, "TimedOut")).status
    assert "waiting for a friend" in status.evidence.logs[0].tail
    assert status.evidence.pod == pod.key.name
    assert status.evidence.containers[0].state.startswith("running")
    assert any(event.reason == "SuccessfulCreate" for event in status.evidence.events), status.evidence.events
    assert status.result_map == {"step": "2 of 3"}
    assert "timeoutSeconds" in status.message

    async def assert_stopped() -> None:
        job = await checkups.get(desired.JOBS, ObjectKey(namespace, status.job), dict[str, Any])
        failed = [
            c for c in job["status"].get("conditions", []) if c["type"] == "Failed" and c["status"] == "True"
        ]
        assert [condition["reason"] for condition in failed] == ["DeadlineExceeded"], job["status"]
        assert not await exists(checkups, PODS, pod.key), "the pod still runs"

    await eventually(assert_stopped)
    order = [
        str(exchange.request).split()[1]
        for exchange in proxy.trace
        if matching("get", "pods", subresource="log")(exchange.request)
        or matching("patch", "jobs")(exchange.request)
    ]
    assert order == ["pods/log", "jobs.batch"], "the log first"
    assert (await get(checkups, key)).status == status, "the end of the Job changes nothing"


@pytest.mark.parametrize(("code", "want", "ended"), [(0, "Passed", "Complete"), (3, "Failed", "Failed")])
async def test_checkup_that_ends_in_time_does_not_time_out_although_job_reports_late(
    code, want, ended, patient_operator, checkups: Client, proxy: FaultProxy, namespace
):
    key = await create(checkups, namespace, "prompt", timeout=1)
    pod = await SimulatedPod.wait_for(checkups, key)
    await write_results(checkups, key, PASSED)
    hold = proxy.hold("jobs")
    await pod.terminate(code)
    status = (await wait_for_verdict(checkups, key, want)).status

    async def assert_job_ended() -> None:
        job = await checkups.get(desired.JOBS, ObjectKey(namespace, status.job), dict[str, Any])
        assert [c["type"] for c in job["status"].get("conditions", [])][-1:] == [ended], job["status"]

    await eventually(assert_job_ended)
    hold.release()
    await proxy.quiet(0.5)
    assert proxy.trace.writes(matching("patch", "jobs")) == [], "its Job was stopped"


async def _wait_for_event(api: Api, namespace: str, reason: str) -> None:
    """Wait for an Event about a pod; Kubernetes records it after it wrote the pod."""
    found = (await api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"))["items"]
    assert reason in {each["reason"] for each in found}, found


async def test_timeout_enforced_by_kubelet_while_operator_was_down_is_reported(
    checkup_operator, checkups: Client, namespace
):
    key = await create(checkups, namespace, "hung")
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.terminate(
        137, reason="DeadlineExceeded", message="Pod was active on the node longer than the deadline"
    )
    status = (await wait_for_verdict(checkups, key, "TimedOut")).status
    assert status.reason == "DeadlineExceeded"
    assert await exists(checkups, PODS, pod.key), "the pod was deleted"


async def test_image_that_cannot_be_pulled_ends_with_infra_error(
    checkup_operator, checkups: Client, namespace
):
    key = await create(checkups, namespace, "no-image", timeout=TO_START)
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.set_waiting("ImagePullBackOff", 'Back-off pulling image "nowhere/none:1"')
    waiting = await wait_for_reason(checkups, key, "ImagePullFailed")
    assert waiting.status.verdict is None, "the verdict came too early"
    with checkup_operator.clock.running_fast():
        status = (await wait_for_verdict(checkups, key, "InfraError")).status
    assert 'ImagePullBackOff: Back-off pulling image "nowhere/none:1"' in status.message
    assert "check spec.image" in status.message


async def test_image_that_is_pulled_late_runs(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "late-image")
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.set_waiting("ErrImagePull", "try again")
    await wait_for_reason(checkups, key, "ImagePullFailed")
    await run_to_success(checkups, key)
    await wait_for_verdict(checkups, key, "Passed")


async def test_invalid_image_name_ends_checkup_at_once(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "bad-name", timeout=3600, image="NOT AN IMAGE")
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.set_waiting("InvalidImageName", "couldn't parse image name")
    status = (await wait_for_verdict(checkups, key, "InfraError")).status
    assert (status.reason, "InvalidImageName" in status.message) == ("ImagePullFailed", True)


async def test_unschedulable_pod_ends_with_infra_error(
    checkup_operator, checkups: Client, api: Api, namespace
):
    """The control plane has no schedulable node, and the scheduler reports that."""
    key = await create(checkups, namespace, "nowhere", timeout=TO_START)
    await wait_for_reason(checkups, key, "Unschedulable")
    await eventually(lambda: _wait_for_event(api, namespace, "FailedScheduling"))
    with checkup_operator.clock.running_fast():
        status = (await wait_for_verdict(checkups, key, "InfraError")).status
    assert status.reason == "Unschedulable"
    assert "cannot be scheduled" in status.message
    assert status.evidence.events, "the scheduler's message is missing"


async def test_missing_service_account_ends_with_infra_error(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "nobody", timeout=TO_START, serviceAccountName="nobody")
    waiting = await wait_for_reason(checkups, key, "ServiceAccountMissing")
    assert waiting.status.verdict is None, "the verdict came too early"
    with checkup_operator.clock.running_fast():
        status = (await wait_for_verdict(checkups, key, "InfraError")).status
    assert status.reason == "ServiceAccountMissing"
    assert "ServiceAccount nobody does not exist" in status.message
    for resource in CHILD_TYPES:
        assert not await exists(checkups, resource, ObjectKey(namespace, await run_name(checkups, key))), (
            resource.kind
        )


async def test_exhausted_pod_quota_ends_with_infra_error(
    checkup_operator, checkups: Client, api: Api, namespace
):
    await create_empty_quota(api, namespace, "pods", "pods")
    key = await create(checkups, namespace, "crowded", timeout=TO_START)
    waiting = await wait_for_reason(checkups, key, "PodNotCreated")
    assert waiting.status.verdict is None, "the verdict came too early"
    with checkup_operator.clock.running_fast():
        status = (await wait_for_verdict(checkups, key, "InfraError")).status
    assert "exceeded quota: tight" in status.message


async def test_pod_security_violation_ends_with_infra_error(
    checkup_operator, checkups: Client, api: Api, namespace
):
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await api.merge(f"/api/v1/namespaces/{namespace}", label)
    await wait_until_rejected(api, namespace, "pods", "violates PodSecurity", hostNetwork=True)
    overlay = {"spec": {"hostNetwork": True}}
    key = await create(checkups, namespace, "privileged", timeout=TO_START, template=overlay)
    await wait_for_reason(checkups, key, "PodNotCreated")
    with checkup_operator.clock.running_fast():
        status = (await wait_for_verdict(checkups, key, "InfraError")).status
    assert status.reason == "PodNotCreated"
    assert 'violates PodSecurity "restricted:latest": host namespaces' in status.message


async def test_default_pod_satisfies_restricted_pod_security(
    checkup_operator, checkups: Client, api: Api, namespace
):
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await api.merge(f"/api/v1/namespaces/{namespace}", label)
    await wait_until_rejected(api, namespace, "pods", "violates PodSecurity", hostNetwork=True)
    key = await create(checkups, namespace, "modest")
    await run_to_success(checkups, key)
    await wait_for_verdict(checkups, key, "Passed")


@pytest.mark.parametrize(
    ("plural", "counted"),
    [
        ("configmaps", "configmaps"),
        ("roles", "count/roles.rbac.authorization.k8s.io"),
        ("jobs", "count/jobs.batch"),
    ],
    ids=["ConfigMap quota", "Role quota", "Job quota"],
)
async def test_setup_rejected_by_quota_is_reported_and_leaves_no_objects(
    plural, counted, checkup_operator, checkups: Client, api: Api, namespace
):
    await create_empty_quota(api, namespace, plural, counted)
    key = await create(checkups, namespace, "half", timeout=1)
    name = await run_name(checkups, key)
    with checkup_operator.clock.running_fast():
        status = (await wait_for_verdict(checkups, key, "InfraError")).status
    assert status.reason == "SetupRefused"
    assert "exceeded quota: tight" in status.message
    await checkups.delete(CHECKUPS, key)

    async def assert_gone() -> None:
        assert not await exists(checkups, CHECKUPS, key)
        for resource in CHILD_TYPES:
            assert not await exists(checkups, resource, ObjectKey(namespace, name)), resource.kind

    await eventually(assert_gone)


@pytest.mark.parametrize("plural", ["roles", "jobs"])
async def test_temporary_policy_rejection_is_retried(
    plural, patient_operator, checkups: Client, proxy: FaultProxy, namespace
):
    """Policies reject with 422 by default, like a validation error."""
    proxy.inject(Answer(422, "Invalid", "a policy says no"), when=matching("create", plural), times=2)
    key = await create(checkups, namespace, "waits")
    await run_to_success(checkups, key)
    await wait_for_verdict(checkups, key, "Passed")


async def test_spec_is_immutable_after_start_by_crd_rule(checkup_operator, checkups: Client, namespace):
    """The CRD alone enforces it; test_checkup_admission.py covers the webhooks."""
    key = await create(checkups, namespace, "fixed", params={"a": "b"})
    await run_to_success(checkups, key)
    await wait_for_verdict(checkups, key, "Passed")
    for change in (
        {"params": {"a": "c"}},
        {"image": "other"},
        {"template": {"spec": {"nodeSelector": {"a": "b"}}}},
    ):
        with pytest.raises(Invalid) as refusal:
            await checkups.patch(CHECKUPS, key, {"spec": change}, Object)
        assert "spec must not be changed once the checkup has started" in refusal.value.message


async def test_template_that_is_no_valid_pod_is_reported(checkup_operator, checkups: Client, namespace):
    overlay = {
        "spec": {"containers": [{"name": "checkup", "volumeMounts": [{"name": "none", "mountPath": "/x"}]}]}
    }
    key = await create(checkups, namespace, "odd", timeout=3600, template=overlay)
    status = (await wait_for_verdict(checkups, key, "Invalid")).status
    assert status.reason == "InvalidTemplate"
    assert "volumeMounts[0].name" in status.message


async def test_invalid_params_that_bypassed_webhook_create_nothing_and_can_be_corrected(
    checkup_operator, checkups: Client, proxy: FaultProxy, namespace
):
    key = await create(checkups, namespace, "invalid", params='{"a": {"b": 1}}')
    status = (await wait_for_verdict(checkups, key, "Invalid")).status
    assert "spec.params[a]" in status.message
    assert proxy.trace.writes(matching("create")) == []
    await checkups.patch(CHECKUPS, key, {"spec": {"params": '{"a": "b"}'}}, Object)
    await run_to_success(checkups, key)
    await wait_for_verdict(checkups, key, "Passed")


async def test_evicted_pod_is_reported_as_disrupted(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "evicted")
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.terminate(137, reason="Evicted", message="The node was low on resource: memory.")
    status = (await wait_for_verdict(checkups, key, "InfraError")).status
    assert status.reason == "PodDisrupted"
    assert "low on resource" in status.message


async def test_deleted_pod_is_reported_as_lost(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "robbed")
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.start()
    await wait_for_reason(checkups, key, "Running")
    await checkups.delete(PODS, pod.key)
    status = (await wait_for_verdict(checkups, key, "InfraError")).status
    assert status.reason == "PodLost"
    assert "next: rerun" in status.message


async def test_verdict_is_recorded_as_event(checkup_operator, checkups: Client, api: Api, namespace):
    key = await create(checkups, namespace, "told", timeout=1, serviceAccountName="nobody")
    with checkup_operator.clock.running_fast():
        await wait_for_verdict(checkups, key, "InfraError")

    async def assert_reported() -> None:
        events = (await api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"))["items"]
        ours = {event["reason"]: event for event in events if event["regarding"]["name"] == "told"}
        assert {"ServiceAccountMissing", "InfraError"} <= ours.keys(), list(ours)
        assert ours["InfraError"]["type"] == "Warning"

    await eventually(assert_reported)
