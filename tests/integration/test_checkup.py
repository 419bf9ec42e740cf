"""The lifecycle of a Checkup on a real API server with a real Job controller and scheduler.

There is no node: the tests write what a kubelet and a checkup would write (see kit/kinds/checkups.py). The same on a
real node is in tests/e2e.
"""

import json
from typing import Any

import pytest

from kit.cluster.objects import exists
from kit.eventually import eventually
from kit.faults.proxy import Answer, FaultProxy, Injection, matching
from kit.kinds.checkups import (
    CHILD_TYPES,
    PASSED,
    SimulatedPod,
    a_checkup,
    children,
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
from quintet.runtime.ownership import with_ownership


async def wait_until_removed(client: Client, key: ObjectKey, name: str) -> None:
    async def assert_gone() -> None:
        assert not await exists(client, CHECKUPS, key), "the Checkup"
        for resource in CHILD_TYPES:
            assert not await exists(client, resource, ObjectKey(key.namespace, name)), resource.kind
        selector = f"batch.kubernetes.io/job-name={name}"
        async for page in client.pages(PODS, namespace=key.namespace, labels=selector):
            assert page.items == (), "pods"

    await eventually(assert_gone)


async def test_echo_checkup_from_design_passes(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "echo-checkup-config", params='{"message": "Hi!"}')
    await run_to_success(checkups, key)
    checkup = await wait_for_verdict(checkups, key, "Passed")
    status = checkup.status
    assert json.loads(status.results) == {"echo": "Hi!"}
    assert status.result_map == {"echo": "Hi!"}
    succeeded = find_condition(status.conditions, "Succeeded")
    assert (succeeded.status, succeeded.message) == ("True", "The checkup finished successfully")
    assert find_condition(status.conditions, "Failed").status == "False"
    assert status.start_time <= status.completion_time
    assert status.evidence is None, "nothing went wrong"
    assert status.observed_generation == checkup.metadata.generation


async def test_one_job_supports_both_image_contracts(checkup_operator, checkups: Client, namespace):
    params = {"message": "a=b $(HOME) c", "sampleSeconds": "5"}
    key = await create(checkups, namespace, "both", params=params, timeout="90")
    await SimulatedPod.wait_for(checkups, key)
    checkup, seen = await get(checkups, key), await children(checkups, key)
    name = seen["Job"]["metadata"]["name"]
    for kind, child in seen.items():
        owner = child["metadata"]["ownerReferences"][0]
        assert (owner["uid"], owner["controller"]) == (checkup.metadata.uid, True), kind
    pod = seen["Job"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    env = {item["name"]: item.get("value") for item in container["env"]}
    assert env == {
        "CHECKUP_UID": checkup.metadata.uid,
        "RESULT_CONFIGMAP_NAME": name,
        "RESULT_CONFIGMAP_NAMESPACE": namespace,
        "CONFIGMAP_NAME": name,
        "CONFIGMAP_NAMESPACE": namespace,
        "POD_UID": None,
        "MESSAGE": "a=b $$(HOME) c",
        "SAMPLESECONDS": "5",
    }
    assert seen["ConfigMap"]["data"] == {
        "spec.timeout": "90s",
        "spec.param.message": "a=b $(HOME) c",
        "spec.param.sampleSeconds": "5",
    }
    assert seen["Role"]["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [name],
            "verbs": ["get", "update", "patch"],
        }
    ]
    assert seen["RoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "echo", "namespace": namespace}
    ]
    assert (pod["restartPolicy"], seen["Job"]["spec"]["backoffLimit"]) == ("Never", 0)
    assert (container["name"], pod["serviceAccountName"]) == ("checkup", "echo")


async def test_checkup_run_needs_four_creates_and_no_polling(
    checkup_operator, checkups: Client, proxy: FaultProxy, namespace
):
    key = await create(checkups, namespace, "cheap")
    await run_to_success(checkups, key)
    await wait_for_verdict(checkups, key, "Passed")
    await proxy.quiet(0.5)
    writes = [str(exchange.request).split()[:2] for exchange in proxy.trace.writes()]
    assert writes[:4] == [
        ["create", "configmaps"],
        ["create", "roles.rbac.authorization.k8s.io"],
        ["create", "rolebindings.rbac.authorization.k8s.io"],
        ["create", "jobs.batch"],
    ], f"\n{proxy.trace}"
    assert {tuple(write) for write in writes[4:]} == {("patch", "checkups.kiagnose.io/status")}
    # Job created, unschedulable, running, partial results, finished.
    assert len(writes) <= 9, f"\n{proxy.trace}"
    gets = [
        str(exchange.request)
        for exchange in proxy.trace.requests(matching("get"))
        if exchange.request.resource
    ]
    assert gets == [f"get configmaps {namespace}/{await run_name(checkups, key)}"], (
        "the results, once, at the end"
    )


async def test_status_shows_results_of_running_checkup(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "slow")
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.start()
    await wait_for_reason(checkups, key, "Running")
    await write_results(checkups, key, {"status.result.done": "40 %"})

    async def assert_shown() -> None:
        status = (await get(checkups, key)).status
        assert status.result_map == {"done": "40 %"}, status
        assert status.verdict is None
        assert find_condition(status.conditions, "Running").status == "True"

    await eventually(assert_shown)
    await write_results(checkups, key, {**PASSED, "status.result.done": "100 %"})
    await pod.terminate()
    assert (await wait_for_verdict(checkups, key, "Passed")).status.result_map == {
        "done": "100 %",
        "echo": "Hi!",
    }


async def test_results_written_after_verdict_are_ignored(
    checkup_operator, checkups: Client, proxy: FaultProxy, namespace
):
    key = await create(checkups, namespace, "frozen")
    await run_to_success(checkups, key)
    before = await wait_for_verdict(checkups, key, "Passed")
    await proxy.quiet(0.5)
    mark = proxy.trace.mark()
    await write_results(checkups, key, {"status.succeeded": "false", "status.result.echo": "forged"})
    await checkups.patch(CHECKUPS, key, {"metadata": {"labels": {"look": "again"}}}, Object)
    await proxy.quiet(0.5)
    assert (await get(checkups, key)).status == before.status
    assert proxy.trace.writes(since=mark) == []


async def test_rerun_creates_new_objects_and_keeps_history(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "again")
    await run_to_success(checkups, key)
    await wait_for_verdict(checkups, key, "Passed")
    first = await run_name(checkups, key)
    await checkups.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/rerun": "1"}}}, Object)
    pod = await SimulatedPod.wait_for(checkups, key, 2)
    await pod.start()
    await write_results(
        checkups, key, {"status.succeeded": "false", "status.failureReason": "check: too slow"}, 2
    )
    await pod.terminate(1)
    status = (await wait_for_verdict(checkups, key, "Failed", run=2)).status
    assert [(run.run, run.verdict) for run in status.history] == [(1, "Passed")]
    assert status.failure_reason == "check: too slow"
    assert status.result_map == {}, "results of the first run"
    for resource in CHILD_TYPES:
        assert not await exists(checkups, resource, ObjectKey(namespace, first)), (
            f"{resource.kind} of the first run"
        )
    await checkups.delete(CHECKUPS, key)
    await wait_until_removed(checkups, key, status.job)


@pytest.mark.exhaustive
async def test_history_keeps_last_ten_runs(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "often")
    for run in range(1, 13):
        await run_to_success(checkups, key, run)
        await wait_for_verdict(checkups, key, "Passed", run=run)
        await checkups.patch(
            CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/rerun": f"r{run}"}}}, Object
        )
    await SimulatedPod.wait_for(checkups, key, 13)

    async def assert_kept() -> None:
        status = (await get(checkups, key)).status
        assert [run.run for run in status.history] == list(range(12, 2, -1)), status.history

    await eventually(assert_kept)


async def test_rerun_requested_during_run_starts_after_it(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "patient")
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.start()
    await wait_for_reason(checkups, key, "Running")
    await checkups.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/rerun": "x"}}}, Object)
    await write_results(checkups, key, PASSED)
    await pod.terminate()
    await run_to_success(checkups, key, 2)
    status = (await wait_for_verdict(checkups, key, "Passed", run=2)).status
    assert [(run.run, run.verdict) for run in status.history] == [(1, "Passed")]


async def test_cancelling_stops_run_and_prevents_next_run(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "unwanted")
    pod = await SimulatedPod.wait_for(checkups, key)
    await pod.start()
    await wait_for_reason(checkups, key, "Running")
    await checkups.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/cancel": "true"}}}, Object)
    checkup = await wait_for_verdict(checkups, key, "Cancelled")
    assert "kiagnose.io/rerun" in checkup.status.message

    async def assert_stopped() -> None:
        assert not await exists(checkups, PODS, pod.key), "the pod still runs"
        job = await checkups.get(desired.JOBS, ObjectKey(namespace, checkup.status.job), dict[str, Any])
        assert [c["type"] for c in job["status"].get("conditions", []) if c["status"] == "True"][-1:] == [
            "Failed"
        ]

    await eventually(assert_stopped)
    await checkups.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/rerun": "x"}}}, Object)
    await checkups.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/cancel": None}}}, Object)
    await run_to_success(checkups, key, 2)
    await wait_for_verdict(checkups, key, "Passed", run=2)


async def test_cancelling_stops_job_that_is_not_in_status_yet(
    checkup_operator, checkups: Client, proxy: FaultProxy, namespace
):
    status = matching("patch", "checkups", subresource="status")
    trouble = proxy.inject(Answer(503, "ServiceUnavailable"), when=status, times=None)
    key = await create(checkups, namespace, "unnoted")
    pod = await SimulatedPod.wait_for(checkups, key)
    await checkups.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/cancel": "true"}}}, Object)
    trouble.remove()
    await wait_for_verdict(checkups, key, "Cancelled")

    async def assert_stopped() -> None:
        assert not await exists(checkups, PODS, pod.key), "the pod still runs"

    await eventually(assert_stopped)


async def rerun_without_status(
    client: Client, proxy: FaultProxy, namespace: str
) -> tuple[ObjectKey, Injection]:
    """Start a second run whose Job exists while the status still shows the first run."""
    key = await create(client, namespace, "again")
    await run_to_success(client, key)
    await wait_for_verdict(client, key, "Passed")
    status = matching("patch", "checkups", subresource="status")
    trouble = proxy.inject(Answer(503, "ServiceUnavailable"), when=status, times=None)
    await client.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/rerun": "a"}}}, Object)
    await SimulatedPod.wait_for(client, key, 2)
    return key, trouble


async def test_cancelling_removes_objects_of_rerun_that_is_not_in_status_yet(
    checkup_operator, checkups: Client, proxy: FaultProxy, namespace
):
    key, trouble = await rerun_without_status(checkups, proxy, namespace)
    name = await run_name(checkups, key, 2)
    job = await checkups.get(desired.JOBS, ObjectKey(namespace, name), Object)
    await checkups.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/cancel": "true"}}}, Object)

    async def assert_removed() -> None:
        for resource in CHILD_TYPES:
            assert not await exists(checkups, resource, ObjectKey(namespace, name)), resource.kind

    await eventually(assert_removed, within=60)
    trouble.remove()
    status = (await get(checkups, key)).status
    assert (status.run, status.verdict) == (1, "Passed")
    annotations = {"kiagnose.io/cancel": None, "kiagnose.io/rerun": "b"}
    await checkups.patch(CHECKUPS, key, {"metadata": {"annotations": annotations}}, Object)
    await run_to_success(checkups, key, 2)
    status = (await wait_for_verdict(checkups, key, "Passed", run=2)).status
    assert status.job_uid != job.metadata.uid, "the verdict is that of the run that was cancelled"


async def test_run_that_cache_does_not_show_yet_is_not_removed(
    checkup_operator, checkups: Client, proxy: FaultProxy, namespace
):
    """The operator gets no watch event of the Checkup while another one starts the second run."""
    key = await create(checkups, namespace, "ahead")
    await run_to_success(checkups, key)
    checkup = await wait_for_verdict(checkups, key, "Passed")
    await proxy.quiet(0.5)
    hold, mark = proxy.hold("checkups"), proxy.trace.mark()
    name = await run_name(checkups, key, 2)
    body = with_ownership(desired.job(checkup, name, 2), checkup, CHECKUPS)
    await checkups.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/rerun": "a"}}}, Object)
    await checkups.create(desired.JOBS, body, Object, namespace=namespace)
    await proxy.wait_for(matching("list", "checkups"), since=mark)
    await proxy.quiet(1.0)
    assert proxy.trace.requests(matching("delete"), since=mark) == [], f"\n{proxy.trace}"
    hold.release()

    async def assert_followed() -> None:
        assert (await get(checkups, key)).status.job == name

    await eventually(assert_followed, within=60)


async def test_deletion_stops_rerun_that_is_not_in_status_yet(
    checkup_operator, checkups: Client, proxy: FaultProxy, namespace
):
    key, _ = await rerun_without_status(checkups, proxy, namespace)
    name = await run_name(checkups, key, 2)
    await checkups.delete(CHECKUPS, key)
    await wait_until_removed(checkups, key, name)
    ended = proxy.trace.requests(matching("delete", "jobs", name=name))
    assert ended, f"left to the garbage collector\n{proxy.trace}"


async def test_deleted_job_is_not_recreated(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "robbed")
    await (await SimulatedPod.wait_for(checkups, key)).start()
    await wait_for_reason(checkups, key, "Running")
    job = ObjectKey(namespace, await run_name(checkups, key))
    await checkups.delete(desired.JOBS, job, propagation="Background")
    checkup = await wait_for_verdict(checkups, key, "Cancelled")
    assert checkup.status.reason == "JobDeleted"
    assert not await exists(checkups, desired.JOBS, job)


async def a_running_checkup(client: Client, namespace: str) -> tuple[ObjectKey, SimulatedPod]:
    key = await create(client, namespace, "stripped")
    pod = await SimulatedPod.wait_for(client, key)
    await pod.start()
    await wait_for_reason(client, key, "Running")
    return key, pod


async def remove_managed_by_label(client: Client, key: ObjectKey) -> None:
    """Remove the label from the Job, so that no watch of the operator shows it."""
    job = ObjectKey(key.namespace, await run_name(client, key))
    none = {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}}
    await client.patch(desired.JOBS, job, none, Object)


async def test_job_labels_are_restored_and_job_is_followed(checkup_operator, checkups: Client, namespace):
    key, pod = await a_running_checkup(checkups, namespace)
    await remove_managed_by_label(checkups, key)

    async def assert_labelled() -> None:
        job = (await children(checkups, key))["Job"]
        assert job["metadata"]["labels"].get("app.kubernetes.io/managed-by") == "quintet"

    await eventually(assert_labelled, within=60)
    await write_results(checkups, key, PASSED)
    await pod.terminate()
    await wait_for_verdict(checkups, key, "Passed")


async def test_cancelling_stops_job_without_labels(
    checkup_operator, checkups: Client, proxy: FaultProxy, namespace
):
    key, pod = await a_running_checkup(checkups, namespace)
    looks, mark = matching("get", "jobs"), proxy.trace.mark()
    trouble = proxy.inject(Answer(503, "ServiceUnavailable"), when=looks, times=None)
    await remove_managed_by_label(checkups, key)
    await proxy.wait_for(looks, since=mark)
    await checkups.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/cancel": "true"}}}, Object)
    trouble.remove()
    await wait_for_verdict(checkups, key, "Cancelled")

    async def assert_stopped() -> None:
        assert not await exists(checkups, PODS, pod.key), "the pod still runs"

    await eventually(assert_stopped, within=60)


async def test_deleting_running_checkup_leaves_no_objects(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "deleted")
    await (await SimulatedPod.wait_for(checkups, key)).start()
    await wait_for_reason(checkups, key, "Running")
    name = await run_name(checkups, key)
    await checkups.delete(CHECKUPS, key)
    await wait_until_removed(checkups, key, name)


async def test_deleting_waiting_checkup_leaves_no_objects(checkup_operator, checkups: Client, namespace):
    key = await create(checkups, namespace, "deleted", serviceAccountName="nobody")
    await wait_for_reason(checkups, key, "ServiceAccountMissing")
    name = await run_name(checkups, key)
    await checkups.delete(CHECKUPS, key)
    await wait_until_removed(checkups, key, name)


async def test_checkup_that_bypassed_webhook_gets_finalizer(checkup_operator, checkups: Client, namespace):
    await checkups.create(CHECKUPS, a_checkup("bare"), Object, namespace=namespace)
    key = ObjectKey(namespace, "bare")
    await run_to_success(checkups, key)
    checkup = await wait_for_verdict(checkups, key, "Passed")
    assert checkup.metadata.finalizers == ("kiagnose.io/checkup",)


async def test_checkup_starts_when_its_service_account_is_created(
    checkup_operator, checkups: Client, namespace
):
    key = await create(checkups, namespace, "early", serviceAccountName="late", timeout=300)
    checkup = await wait_for_reason(checkups, key, "ServiceAccountMissing")
    assert "late" in checkup.status.message
    assert checkup.status.phase == "Pending"
    await create_service_account(checkups, namespace, "late")
    await run_to_success(checkups, key)
    await wait_for_verdict(checkups, key, "Passed")


async def test_ten_checkups_run_concurrently(checkup_operator, checkups: Client, namespace):
    keys = [
        await create(checkups, namespace, f"many-{number}", params={"n": str(number)}) for number in range(10)
    ]
    for key in keys:
        await run_to_success(checkups, key)
    for key in keys:
        await wait_for_verdict(checkups, key, "Passed")
