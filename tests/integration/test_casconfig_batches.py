"""A CASConfig changes all of its targets or none, whichever target fails and for whatever reason."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kit.cluster.api import Api, RefusedError
from kit.cluster.objects import a_configmap
from kit.eventually import eventually, eventually_true
from kit.faults.proxy import Answer, DropReply, FaultProxy, matching
from kit.faults.proxy.certificate import serving_certificate
from kit.kinds.casconfigs import (
    DEPLOYMENTS,
    VERBS,
    a_deployment,
    a_policy,
    a_template,
    comparable_fields,
    create,
    create_service_account,
    delete_and_wait,
    edit,
    get,
    wait_for_reason,
    wait_until_applied,
)
from kit.kinds.casconfigs import casconfig_operator as operator
from quintet.apis.casconfig import CASCONFIGS, TargetState
from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource, find_condition
from quintet.kube.client import Client
from quintet.web.server import stop_listening

JOBS = Resource("batch", "v1", "Job", "jobs")
NAMES = ("a", "b", "c")


async def create_targets(client: Client, namespace: str) -> dict[str, JsonObject]:
    """Create three Deployments and return their comparable fields."""
    for name in NAMES:
        await client.create(DEPLOYMENTS, a_deployment(name), Object, namespace=namespace)
    return await read_targets(client, namespace)


async def read_targets(client: Client, namespace: str) -> dict[str, JsonObject]:
    return {
        name: comparable_fields(await client.get(DEPLOYMENTS, ObjectKey(namespace, name), dict[str, Any]))
        for name in NAMES
    }


async def wait_until_rolled_back(client: Client, key: ObjectKey, failing: str, why: str) -> None:
    """Wait until the status names the failed target and reason and no target is changed."""

    async def probe() -> None:
        status = (await get(client, key)).status
        by_name = {target.name: target for target in status.targets}
        assert by_name[failing].state is TargetState.FAILED, status
        assert why in by_name[failing].message, status
        assert f"Deployment {key.namespace}/{failing}: " in status.message, status
        others = {target.state for name, target in by_name.items() if name != failing}
        assert others <= {TargetState.ROLLED_BACK, TargetState.WAITING}, status
        assert (status.applied, status.failed, status.matched) == (0, 1, len(by_name)), status
        assert not status.unfinished, status
        ready = find_condition(status.conditions, "Ready")
        assert (ready.status, ready.reason) == ("False", "TargetFailed"), status

    await eventually(probe)


REFUSALS = {
    "conflict": (Answer(409, "Conflict", "somebody is always faster"), "somebody is always"),
    "quota": (Answer(403, "Forbidden", "exceeded quota: small"), "exceeded quota"),
    "fault": (Answer(500, "InternalError", "failed calling webhook"), "failed calling"),
}


def refusals() -> Iterator[Any]:
    """Yield every failure at every target; by default each failure and each target once."""
    for first, (name, (answer, why)) in enumerate(REFUSALS.items()):
        for second, failing in enumerate(NAMES):
            marks = [pytest.mark.exhaustive] if first != second else []
            yield pytest.param(failing, answer, why, id=f"{name}-{failing}", marks=marks)


# The first, a middle one and the last; first and last are also tried with other failures.
each_target = pytest.mark.parametrize(
    "failing", ["b", *(pytest.param(each, marks=pytest.mark.exhaustive) for each in ("a", "c"))]
)


@pytest.mark.parametrize(("failing", "answer", "why"), [*refusals()])
async def test_target_whose_patch_fails_leaves_all_targets_unchanged(
    failing, answer, why, casconfig_operator, casconfigs: Client, proxy: FaultProxy, namespace
):
    before = await create_targets(casconfigs, namespace)
    fault = proxy.inject(answer, when=matching("patch", "deployments", name=failing), times=None)
    key = await create(casconfigs, namespace, "batch", a_policy(envs={"X": "1"}))
    with casconfig_operator.clock.running_fast():
        await wait_until_rolled_back(casconfigs, key, failing, why)
    assert await read_targets(casconfigs, namespace) == before
    fault.remove()
    await edit(casconfigs, key, a_policy(envs={"X": "2"}))
    await wait_until_applied(casconfigs, key, 3)
    await delete_and_wait(casconfigs, key)
    assert await read_targets(casconfigs, namespace) == before


@asynccontextmanager
async def a_webhook(api: Api, namespace: str, refused: str, scratch: Path) -> AsyncIterator[None]:
    """Run a validating webhook that denies every update of one Deployment."""

    async def review(request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        response: JsonObject = {"uid": asked["uid"], "allowed": asked["name"] != refused}
        if not response["allowed"]:
            response["status"] = {"code": 403, "message": "the house rules forbid it"}
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )

    folder = scratch / "webhook"
    folder.mkdir()
    context, pem = serving_certificate(folder)
    certificate = base64.b64encode(pem).decode()
    app = web.Application()
    app.router.add_post("/", review)
    runner = web.AppRunner(app)
    await runner.setup()
    assert runner.server is not None
    listener = await asyncio.get_running_loop().create_server(runner.server, "127.0.0.1", 0, ssl=context)
    port = listener.sockets[0].getsockname()[1]
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "resources": ["deployments"],
        "operations": ["UPDATE"],
    }
    hook = {
        "name": "rules.test.quintet.dev",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": certificate},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [rule],
    }
    await api.create(path, {"metadata": {"name": namespace}, "webhooks": [hook]})
    try:
        yield
    finally:
        await api.delete(f"{path}/{namespace}")
        await eventually(lambda: _assert_changeable(api, namespace, refused))
        await stop_listening(listener)
        await runner.cleanup()


def _assert_changeable(api: Api, namespace: str, name: str) -> Awaitable[JsonObject]:
    """Update a Deployment as a dry run."""
    where = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    return api.merge(where, {"metadata": {"labels": {"tried": "this"}}}, dryRun="All")


@each_target
async def test_target_denied_by_webhook_leaves_all_targets_unchanged(
    failing, casconfig_operator, casconfigs: Client, api: Api, namespace, tmp_path
):
    before = await create_targets(casconfigs, namespace)
    async with a_webhook(api, namespace, failing, tmp_path):

        async def assert_webhook_active() -> None:
            with pytest.raises(RefusedError, match="house rules"):
                await _assert_changeable(api, namespace, failing)

        await eventually(assert_webhook_active)
        key = await create(casconfigs, namespace, "batch", a_policy(envs={"X": "1"}))
        await wait_until_rolled_back(casconfigs, key, failing, "the house rules forbid it")
        assert await read_targets(casconfigs, namespace) == before
    await edit(casconfigs, key, a_policy(labels={"x": "y"}))
    await wait_until_applied(casconfigs, key, 3)


async def test_target_with_immutable_field_leaves_all_targets_unchanged(
    casconfig_operator, casconfigs: Client, namespace
):
    before = await create_targets(casconfigs, namespace)
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "fixed"},
        "spec": {"suspend": True, "template": a_template("fixed", restartPolicy="Never")},
    }
    await casconfigs.create(JOBS, job, Object, namespace=namespace)
    key = await create(
        casconfigs, namespace, "batch", a_policy(include={"kinds": ["Job", "Deployment"]}, envs={"X": "1"})
    )
    config = await wait_for_reason(casconfigs, key, "TargetFailed")
    (failed,) = [target for target in config.status.targets if target.state is TargetState.FAILED]
    assert (failed.kind, failed.name, failed.reason) == ("batch/v1/Job", "fixed", "Invalid")
    assert "field is immutable" in failed.message
    assert await read_targets(casconfigs, namespace) == before


@each_target
async def test_missing_permission_leaves_all_targets_unchanged_until_it_is_granted(
    failing, casconfigs: Client, api: Api, cluster, namespace
):
    allowed = [name for name in NAMES if name != failing]
    see = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch"]}
    some = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"], "resourceNames": allowed}
    await create_service_account(api, namespace, see, some)
    before = await create_targets(casconfigs, namespace)
    async with operator(cluster.kubeconfig, namespace=namespace) as running:
        key = await create(casconfigs, namespace, "batch", a_policy(envs={"X": "1"}))
        await wait_until_rolled_back(casconfigs, key, failing, 'cannot patch resource "deployments"')
        assert await read_targets(casconfigs, namespace) == before
        role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/casconfig-of-{namespace}"
        every = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": [*VERBS]}
        await api.merge(role, {"rules": [every]})
        with running.clock.running_fast():
            await wait_until_applied(casconfigs, key, 3)


async def test_failed_edit_keeps_values_of_previous_spec(
    casconfig_operator, casconfigs: Client, proxy: FaultProxy, namespace
):
    await create_targets(casconfigs, namespace)
    key = await create(casconfigs, namespace, "batch", a_policy(envs={"X": "1"}))
    await wait_until_applied(casconfigs, key, 3)
    good = {name: look["spec"] for name, look in (await read_targets(casconfigs, namespace)).items()}
    fault = proxy.inject(
        Answer(403, "Forbidden", "not today"), when=matching("patch", "deployments", name="b"), times=None
    )
    await edit(casconfigs, key, a_policy(envs={"X": "2", "Y": "2"}))
    await wait_for_reason(casconfigs, key, "TargetFailed")
    assert {name: look["spec"] for name, look in (await read_targets(casconfigs, namespace)).items()} == good
    fault.remove()
    await edit(casconfigs, key, a_policy(envs={"X": "3"}))
    await wait_until_applied(casconfigs, key, 3)


async def test_failing_target_is_retried_first_without_writes_to_others(
    casconfig_operator, casconfigs: Client, proxy: FaultProxy, namespace
):
    await create_targets(casconfigs, namespace)
    proxy.inject(
        Answer(403, "Forbidden", "not today"), when=matching("patch", "deployments", name="b"), times=None
    )
    key = await create(casconfigs, namespace, "batch", a_policy(envs={"X": "1"}))
    await wait_until_rolled_back(casconfigs, key, "b", "not today")
    await proxy.quiet(1.0)
    start = len(list(proxy.trace))
    # A change of a watched object causes a reconciliation.
    await casconfigs.patch(
        DEPLOYMENTS, ObjectKey(namespace, "a"), {"metadata": {"labels": {"n": "1"}}}, Object
    )

    async def assert_retried() -> None:
        later = [each.request for each in list(proxy.trace)[start:] if each.request.verb == "patch"]
        assert "b" in {request.name for request in later}, later

    await eventually(assert_retried)
    await proxy.quiet(1.0)
    later = [each.request for each in list(proxy.trace)[start:] if each.request.resource == "deployments"]
    assert {request.name for request in later if request.verb == "patch"} == {"b"}, later
    await wait_until_rolled_back(casconfigs, key, "b", "not today")


async def test_new_target_that_fails_leaves_earlier_targets_changed(
    casconfig_operator, casconfigs: Client, proxy: FaultProxy, namespace
):
    await create_targets(casconfigs, namespace)
    key = await create(casconfigs, namespace, "batch", a_policy(envs={"X": "1"}))
    await wait_until_applied(casconfigs, key, 3)
    good = await read_targets(casconfigs, namespace)
    proxy.inject(
        Answer(403, "Forbidden", "not today"), when=matching("patch", "deployments", name="late"), times=None
    )
    await casconfigs.create(DEPLOYMENTS, a_deployment("late"), Object, namespace=namespace)
    config = await wait_for_reason(casconfigs, key, "TargetFailed")
    assert (config.status.applied, config.status.matched) == (3, 4)
    assert await read_targets(casconfigs, namespace) == good


async def test_failing_target_is_retried_first_although_cache_lacks_its_status(
    casconfig_operator, casconfigs: Client, proxy: FaultProxy, namespace
):
    before = await create_targets(casconfigs, namespace)
    refusal = proxy.inject(
        Answer(403, "Forbidden", "not today"), when=matching("patch", "deployments", name="b"), times=None
    )
    # The API server has the status, but neither response nor watch event reaches the operator.
    reports = matching("patch", "casconfigs", subresource="status")
    report = proxy.inject(DropReply(), when=lambda request: reports(request) and bool(refusal.hits))
    news = proxy.hold("casconfigs", when=lambda config: bool(config.get("status", {}).get("failed")))
    key = await create(casconfigs, namespace, "batch", a_policy(envs={"X": "1"}))
    await wait_until_rolled_back(casconfigs, key, "b", "not today")
    start = list(proxy.trace).index(await report.hit())

    def patched() -> list[str]:
        later = [each.request for each in list(proxy.trace)[start:]]
        return [each.name for each in later if (each.verb, each.resource) == ("patch", "deployments")]

    await eventually_true(patched)
    await proxy.quiet(1.0)
    assert set(patched()) == {"b"}, "the failing target was not tried first"
    assert await read_targets(casconfigs, namespace) == before
    news.release()
    await wait_until_rolled_back(casconfigs, key, "b", "not today")


UNKNOWN = a_policy(include={"kinds": ["Nothing"]}, envs={"X": "1"})
BLOCKERS = {
    "WaitingForSource": {},
    "TooManyTargets": {"maxTargets": 1},
    "KindNotUsable": {"policies": [UNKNOWN]},
}


@pytest.mark.parametrize("reason", BLOCKERS)
async def test_interrupted_batch_is_undone_although_its_config_cannot_be_applied_any_more(
    reason, casconfigs: Client, api: Api, proxy: FaultProxy, namespace, tmp_path
):
    await create_service_account(api, namespace)
    before = await create_targets(casconfigs, namespace)
    sources = f"/api/v1/namespaces/{namespace}/configmaps"
    await api.create(sources, a_configmap("source", level="1"))
    source = {"kind": "ConfigMap", "name": "source", "path": ".data.level", "toType": "env", "toKey": "L"}
    kubeconfig = proxy.write_kubeconfig(tmp_path)
    fault = proxy.inject(
        Answer(503, "ServiceUnavailable", "later"),
        when=matching("patch", "deployments", name="b"),
        times=None,
    )
    async with operator(kubeconfig, namespace=namespace):
        key = await create(casconfigs, namespace, "batch", a_policy(envs={"X": "1"}, **{"from": [source]}))
        await fault.hit()

        async def assert_half_done() -> None:
            assert await read_targets(casconfigs, namespace) != before

        await eventually(assert_half_done)
    assert (await get(casconfigs, key)).status.unfinished
    fault.remove()
    if BLOCKERS[reason]:
        await casconfigs.patch(CASCONFIGS, key, {"spec": BLOCKERS[reason]}, Object)
    else:
        await api.delete(f"{sources}/source")
    async with operator(kubeconfig, namespace=namespace):
        config = await wait_for_reason(casconfigs, key, reason)
        assert await read_targets(casconfigs, namespace) == before
        assert not config.status.unfinished
        await wait_for_reason(casconfigs, key, "RolledBack", condition="RolledBack")
        if reason == "WaitingForSource":
            await api.create(sources, a_configmap("source", level="2"))
            await wait_until_applied(casconfigs, key, 3)
