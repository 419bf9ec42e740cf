"""No privilege escalation through a Checkup: by its ServiceAccount, its author or existing foreign objects."""

import json
from typing import Any

import pytest

from kit.cluster.access_reviews import is_allowed, service_account_user
from kit.cluster.api import Api
from kit.cluster.objects import exists
from kit.eventually import eventually
from kit.faults.proxy import Answer, matching
from kit.kinds.checkups import (
    ACCOUNT,
    CHILD_TYPES,
    PATIENT,
    SimulatedPod,
    a_checkup,
    an_operator,
    create,
    create_service_account,
    run_name,
    run_to_success,
    wait_for_reason,
    wait_for_verdict,
)
from quintet.apis.checkup import CHECKUPS
from quintet.apis.meta import Object, ObjectKey, Resource
from quintet.controllers.checkup.decide import desired
from quintet.controllers.checkup.rbac import PERMISSIONS, USER_REQUIREMENTS
from quintet.kube.client import Client
from quintet.manifests.policy import policies


async def test_service_account_can_write_its_results_and_nothing_else(
    checkup_operator, checkups: Client, api: Api, namespace
):
    key = await create(checkups, namespace, "modest")
    await SimulatedPod.wait_for(checkups, key)
    name, user = await run_name(checkups, key), service_account_user(namespace, ACCOUNT)
    table = {
        (verb, name): verb in ("get", "update", "patch")
        for verb in ("get", "update", "patch", "delete", "list", "watch", "create", "deletecollection")
    }
    table |= {(verb, "other"): False for verb in ("get", "update", "patch", "delete")}

    async def assert_desired() -> None:
        seen = {
            (verb, which): await is_allowed(api, user, verb, "configmaps", namespace=namespace, name=which)
            for verb, which in table
        }
        assert seen == table

    await eventually(assert_desired)  # a new permission takes effect with a delay
    others = [
        (verb, resource, group)
        for resource, group in (("secrets", ""), ("pods", ""), ("jobs", "batch"), ("checkups", "kiagnose.io"),
                                ("roles", desired.RBAC), ("rolebindings", desired.RBAC))
        for verb in ("get", "list", "create", "update", "patch", "delete")
    ]  # fmt: skip
    gained = [
        (verb, resource)
        for verb, resource, group in others
        if await is_allowed(api, user, verb, resource, group=group, namespace=namespace, name=name)
    ]
    assert gained == []


def _foreign(resource: Resource, name: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
    }
    if resource == desired.CONFIG_MAPS:
        body["data"] = {"ca.crt": "precious"}
    if resource == desired.ROLES:
        body["rules"] = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    if resource == desired.ROLE_BINDINGS:
        body["roleRef"] = {"apiGroup": desired.RBAC, "kind": "ClusterRole", "name": "view"}
    if resource == desired.JOBS:
        container = {"name": "x", "image": "x"}
        body["spec"] = {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        }
    return body


@pytest.mark.parametrize("resource", CHILD_TYPES, ids=lambda resource: resource.kind)
async def test_existing_foreign_object_is_never_adopted_changed_or_granted(
    resource, checkups: Client, cluster, api: Api, namespace
):
    await create_service_account(checkups, namespace)
    key = await create(checkups, namespace, "late", timeout=60)
    name = await run_name(checkups, key)
    await checkups.create(resource, _foreign(resource, name), Object, namespace=namespace)
    where = ObjectKey(namespace, name)
    before = await checkups.get(resource, where, dict[str, Any])
    async with an_operator(cluster.kubeconfig, namespace=namespace) as operator:
        waiting = await wait_for_reason(checkups, key, "ForeignObject")
        assert f"{resource.kind} {where} exists and is not controlled" in waiting.status.message
        with operator.clock.running_fast():
            await wait_for_verdict(checkups, key, "InfraError")
        after = await checkups.get(resource, where, dict[str, Any])
        if resource != desired.JOBS:  # the Job controller writes to every Job
            assert after == before
        user = service_account_user(namespace, ACCOUNT)
        if resource == desired.CONFIG_MAPS:
            granted = await is_allowed(api, user, "update", "configmaps", namespace=namespace, name=name)
            assert not granted, "granted a foreign ConfigMap"
            assert not await exists(checkups, desired.ROLES, where)
        assert not await is_allowed(api, user, "get", "secrets", namespace=namespace, name="any")
        await checkups.delete(CHECKUPS, key)

        async def assert_gone() -> None:
            assert not await exists(checkups, CHECKUPS, key)

        await eventually(assert_gone)
        assert await exists(checkups, resource, where), "a foreign object was deleted"


async def test_changed_role_and_binding_are_restored_before_job_starts(
    checkup_operator, checkups: Client, proxy, namespace
):
    refusal = proxy.inject(Answer(403, "Forbidden"), when=matching("create", "jobs"), times=None)
    key = await create(checkups, namespace, "late", timeout=300)
    where = ObjectKey(namespace, await run_name(checkups, key))
    await refusal.hit()
    everything = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    stranger = [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}]
    await checkups.patch(desired.ROLES, where, {"rules": everything}, Object)
    await checkups.patch(desired.ROLE_BINDINGS, where, {"subjects": stranger}, Object)

    async def assert_restored() -> None:
        role = await checkups.get(desired.ROLES, where, dict[str, Any])
        binding = await checkups.get(desired.ROLE_BINDINGS, where, dict[str, Any])
        assert [rule["resources"] for rule in role["rules"]] == [["configmaps"]]
        assert [subject["name"] for subject in binding["subjects"]] == [ACCOUNT]

    # Wait until the operator has seen both changes before the Job is created.
    await eventually(assert_restored)
    assert not await exists(checkups, desired.JOBS, where)
    refusal.remove()
    await SimulatedPod.wait_for(checkups, key)
    await assert_restored()


async def test_checkup_continues_when_foreign_object_is_deleted(checkups: Client, cluster, namespace):
    await create_service_account(checkups, namespace)
    key = await create(checkups, namespace, "late", timeout=300)
    name = await run_name(checkups, key)
    await checkups.create(
        desired.CONFIG_MAPS, _foreign(desired.CONFIG_MAPS, name), Object, namespace=namespace
    )
    async with an_operator(cluster.kubeconfig, namespace=namespace):
        await wait_for_reason(checkups, key, "ForeignObject")
        await checkups.delete(desired.CONFIG_MAPS, ObjectKey(namespace, name))
        await run_to_success(checkups, key)
        await wait_for_verdict(checkups, key, "Passed")


@pytest.fixture(scope="module")
async def policed(checkups: Client, api: Api):
    """The admission policies as they are installed, once per file, because a new policy takes effect with a delay."""
    path = "/apis/admissionregistration.k8s.io/v1"
    made = []
    try:
        for body in policies(USER_REQUIREMENTS):
            plural = (
                "validatingadmissionpolicies"
                if body["kind"].endswith("Policy")
                else "validatingadmissionpolicybindings"
            )
            await api.create(f"{path}/{plural}", body)
            made.append(f"{path}/{plural}/{body['metadata']['name']}")
        yield
    finally:
        for one in made:
            await api.delete(one)


async def grant(api: Api, namespace: str, user: str, *rules: dict[str, Any]) -> None:
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    await api.create(f"{base}/roles", {"metadata": {"name": user}, "rules": list(rules)})
    subjects = [{"kind": "User", "name": user, "apiGroup": desired.RBAC}]
    ref = {"apiGroup": desired.RBAC, "kind": "Role", "name": user}
    await api.create(
        f"{base}/rolebindings", {"metadata": {"name": user}, "subjects": subjects, "roleRef": ref}
    )


CHECKUP_RIGHT = {
    "apiGroups": ["kiagnose.io"],
    "resources": ["checkups"],
    "verbs": ["create", "update", "patch", "get"],
}
USE = {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": [ACCOUNT], "verbs": ["use"]}
PODS_RIGHT = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}
DELETE_RIGHT = {"apiGroups": ["kiagnose.io"], "resources": ["checkups"], "verbs": ["delete"]}
OVERLAY = {"spec": {"nodeSelector": {"a": "b"}}}


@pytest.mark.parametrize(
    ("rules", "spec", "want"),
    [
        pytest.param([], {}, "you need permission to use that ServiceAccount", id="no permission"),
        pytest.param([USE], {}, None, id="permission to use the ServiceAccount"),
        pytest.param(
            [USE],
            {"serviceAccountName": "admin"},
            "you need permission to use",
            id="permission to use another ServiceAccount",
        ),
        pytest.param([PODS_RIGHT], {}, None, id="permission to create pods"),
        pytest.param(
            [USE],
            {"template": OVERLAY},
            "spec.template decides what runs in pods",
            id="template without permission to create pods",
        ),
        pytest.param([PODS_RIGHT], {"template": OVERLAY}, None, id="template with permission to create pods"),
    ],
)
async def test_user_needs_permission_for_service_account_of_checkup(
    rules, spec, want, policed, cluster, api: Api, namespace
):
    await grant(api, namespace, "ann", CHECKUP_RIGHT, *rules)
    await grant(api, namespace, "nobody", CHECKUP_RIGHT)

    async def assert_decision(user: str, want: str | None, **spec: Any) -> None:
        body = json.dumps(a_checkup("asked", **spec))
        done = cluster.kubectl(
            "create", "--dry-run=server", "-n", namespace, "--as", user, "-f", "-", input=body
        )
        assert (done.returncode == 0) == (want is None), done.stderr
        assert want is None or want in done.stderr, done.stderr

    # Without both permissions the user is rejected once the policies take effect; until then everybody is admitted.
    await eventually(lambda: assert_decision("nobody", "you need permission to use that ServiceAccount"))
    await eventually(
        lambda: assert_decision("ann", want, **spec)
    )  # a new permission takes effect with a delay


@pytest.mark.parametrize(
    ("rules", "want"),
    [
        pytest.param([], "you need permission to use that ServiceAccount", id="no permission"),
        pytest.param([USE], None, id="permission to use the ServiceAccount"),
        pytest.param([PODS_RIGHT], None, id="permission to create pods"),
    ],
)
async def test_user_needs_permission_for_service_account_to_rerun(
    rules, want, policed, checkups: Client, cluster, api: Api, namespace
):
    await grant(api, namespace, "ann", CHECKUP_RIGHT, *rules)
    await grant(api, namespace, "nobody", CHECKUP_RIGHT)
    await create(checkups, namespace, "asked")

    def assert_decision(user: str, want: str | None, *annotations: str) -> None:
        arguments = ("annotate", "ckup", "asked", *annotations, "--overwrite", "--dry-run=server")
        done = cluster.kubectl(*arguments, "-n", namespace, "--as", user)
        assert (done.returncode == 0) == (want is None), done.stderr
        assert want is None or want in done.stderr, done.stderr

    rerun = "kiagnose.io/rerun=2"
    await eventually(
        lambda: assert_decision("nobody", "you need permission to use that ServiceAccount", rerun)
    )
    await eventually(lambda: assert_decision("ann", want, rerun))
    # Other annotations start nothing.
    await eventually(lambda: assert_decision("ann", None, "kiagnose.io/cancel=true", "note=x"))


@pytest.mark.parametrize(
    ("spec", "rules", "want"),
    [
        ({"schedule": "@hourly"}, [], "you need permission to use that ServiceAccount"),
        ({"schedule": "@hourly"}, [USE], None),
        ({"ttlSecondsAfterFinished": 0}, [USE], "you need permission to delete checkups here"),
        ({"ttlSecondsAfterFinished": 0}, [DELETE_RIGHT], None),
        ({"failedRunsHistoryLimit": 0}, [], None),
    ],
    ids=["schedule", "schedule-use", "ttl", "ttl-delete", "history"],
)
async def test_user_who_may_patch_gets_no_runs_and_no_deletion_by_it(
    spec, rules, want, policed, checkups: Client, cluster, api: Api, namespace
):
    await grant(api, namespace, "ann", CHECKUP_RIGHT, *rules)
    await grant(api, namespace, "nobody", CHECKUP_RIGHT)
    await create(checkups, namespace, "asked")

    def assert_decision(user: str, want: str | None, spec: dict[str, Any]) -> None:
        arguments = ("patch", "ckup", "asked", "--type=merge", "-p", json.dumps({"spec": spec}))
        done = cluster.kubectl(*arguments, "--dry-run=server", "-n", namespace, "--as", user)
        assert (done.returncode == 0) == (want is None), done.stderr
        assert want is None or want in done.stderr, done.stderr

    effective = {"schedule": "@daily"}, {"ttlSecondsAfterFinished": 1}
    for refused in effective:
        await eventually(lambda spec=refused: assert_decision("nobody", "you need permission", spec))
    await eventually(lambda: assert_decision("ann", want, spec))


async def test_controller_has_exactly_the_permissions_that_it_grants():
    held = {verb for right in PERMISSIONS if "configmaps" in right.resources for verb in right.verbs}
    assert set(desired.RESULT_VERBS) <= held
    verbs = {verb for right in PERMISSIONS for verb in right.verbs}
    assert verbs.isdisjoint({"escalate", "bind", "impersonate", "*"})
    assert all("*" not in right.resources for right in PERMISSIONS)


async def test_declared_permissions_suffice_for_whole_lifecycle(checkups: Client, proxy, namespace, tmp_path):
    await create_service_account(checkups, namespace)
    kubeconfig = proxy.write_kubeconfig(tmp_path)
    async with an_operator(kubeconfig, namespace=namespace, limits=PATIENT):
        good = await create(checkups, namespace, "good")
        await run_to_success(checkups, good)
        await wait_for_verdict(checkups, good, "Passed")
        bad = await create(checkups, namespace, "bad", timeout=1)
        await (await SimulatedPod.wait_for(checkups, bad)).start()
        await wait_for_verdict(checkups, bad, "TimedOut")
        await checkups.patch(
            CHECKUPS, good, {"metadata": {"annotations": {"kiagnose.io/rerun": "1"}}}, Object
        )
        await run_to_success(checkups, good, 2)
        await wait_for_verdict(checkups, good, "Passed", run=2)
        for key in (good, bad):
            await checkups.delete(CHECKUPS, key)

        async def assert_gone() -> None:
            assert not await exists(checkups, CHECKUPS, good)
            assert not await exists(checkups, CHECKUPS, bad)

        await eventually(assert_gone)
    refused = [str(exchange) for exchange in proxy.trace if exchange.status == 403]
    assert refused == []


async def test_controller_without_patch_permission_cannot_grant_it(checkups: Client, api: Api, namespace):
    """The permissions in the design's appendix cannot work: nobody can grant permissions that they lack."""
    await grant(
        api, namespace, "poor",
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create", "update", "delete"]},
        {"apiGroups": [desired.RBAC], "resources": ["roles"], "verbs": ["create"]},
    )  # fmt: skip
    headers = {"Impersonate-User": "poor"}
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["x"],
        "verbs": ["get", "update", "patch"],
    }
    url = f"{api.server}/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles"
    body = {"metadata": {"name": "x"}, "rules": [rule]}

    async def assert_rejected() -> None:
        async with api.session.post(url, json=body, headers=headers) as answer:
            said = await answer.text()
        assert answer.status == 403, said
        assert "attempting to grant RBAC permissions not currently held" in said

    await eventually(assert_rejected)  # a new permission takes effect with a delay


async def test_results_configmap_is_created_once_and_never_written_by_controller(
    checkup_operator, checkups: Client, proxy, namespace
):
    trouble = proxy.inject(
        Answer(503, "ServiceUnavailable"),
        when=matching("patch", "checkups", subresource="status"),
        times=None,
    )
    key = await create(checkups, namespace, "once")
    where = ObjectKey(namespace, await run_name(checkups, key))
    await SimulatedPod.wait_for(checkups, key)
    # The checkup replaced our data, and the status does not list its Job yet.
    await checkups.patch(
        desired.CONFIG_MAPS, where, {"data": {"spec.timeout": None, "status.succeeded": "true"}}, Object
    )
    trouble.remove()
    await run_to_success(checkups, key)
    await wait_for_verdict(checkups, key, "Passed")
    writes = [
        str(exchange.request)
        for exchange in proxy.trace.writes()
        if exchange.request.resource == "configmaps"
    ]
    assert writes == [f"create configmaps {namespace}"]
