"""No privilege escalation through a CASConfig, and least privilege of its controller."""

import json
from typing import Any, cast

import pytest

from kit.cluster.api import Api
from kit.cluster.control_plane import fresh_namespace
from kit.eventually import eventually
from kit.faults.proxy import Answer, FaultProxy, matching
from kit.kinds.casconfigs import (
    DEPLOYMENTS,
    EVERYTHING,
    RBAC,
    VERBS,
    a_config,
    a_deployment,
    a_policy,
    bind,
    comparable_fields,
    create,
    create_object,
    create_service_account,
    delete_and_wait,
    edit,
    get_object,
    wait_for_permissions,
    wait_for_reason,
    wait_until_applied,
    wait_until_gone,
)
from kit.kinds.casconfigs import casconfig_operator as operator
from quintet.apis.casconfig import CASCONFIGS, TargetState
from quintet.apis.meta import Object, ObjectKey
from quintet.controllers.casconfig import survey
from quintet.controllers.casconfig.rbac import PERMISSIONS, USER_REQUIREMENTS
from quintet.kube.client import Client
from quintet.manifests.policy import policies

SEE = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch"]}


def test_controller_has_no_permission_on_targets_and_impersonates_one_service_account():
    verbs = {verb for right in PERMISSIONS for verb in right.verbs}
    assert verbs == {"get", "list", "watch", "patch", "create", "impersonate"}
    assert [(right.resources, right.names) for right in PERMISSIONS if "impersonate" in right.verbs] == [
        (("serviceaccounts",), ("casconfig",))
    ]
    writes = {
        resource
        for right in PERMISSIONS
        for resource in right.resources
        if {"create", "patch", "update", "delete"} & set(right.verbs)
    }
    assert writes == {"casconfigs", "casconfigs/status", "events"}
    assert all("*" not in (*right.resources, right.group) for right in PERMISSIONS)


async def test_declared_permissions_suffice_for_whole_lifecycle(
    casconfigs: Client, api: Api, proxy: FaultProxy, namespace, tmp_path
):
    await create_service_account(api, namespace)
    before = await casconfigs.create(DEPLOYMENTS, a_deployment("web"), dict[str, Any], namespace=namespace)
    kubeconfig = proxy.write_kubeconfig(tmp_path)
    async with operator(kubeconfig, namespace=namespace):
        key = await create(casconfigs, namespace, "modest", a_policy(envs={"X": "1"}))
        await wait_until_applied(casconfigs, key, 1)
        await delete_and_wait(casconfigs, key)
    assert comparable_fields(await get_object(casconfigs, namespace, "web")) == comparable_fields(before)
    refused = [str(exchange) for exchange in proxy.trace if exchange.status == 403]
    assert refused == []


async def test_casconfig_without_permissions_of_its_service_account_changes_nothing(
    casconfigs: Client, api: Api, cluster, namespace
):
    before = await casconfigs.create(DEPLOYMENTS, a_deployment("web"), dict[str, Any], namespace=namespace)
    async with operator(cluster.kubeconfig, namespace=namespace) as running:
        key = await create(casconfigs, namespace, "poor", a_policy(labels={"x": "y"}))
        config = await wait_for_reason(casconfigs, key, "Forbidden")
        assert (
            f"ServiceAccount {namespace}/casconfig cannot list and watch deployments.apps"
            in config.status.message
        )
        assert "Bind it to a role" in config.status.message
        assert comparable_fields(await get_object(casconfigs, namespace, "web")) == comparable_fields(before)
        # Permissions granted later are detected without another change.
        await bind(api, namespace, *EVERYTHING)
        with running.clock.running_fast():
            await wait_until_applied(casconfigs, key, 1)


async def test_other_namespace_is_reached_only_with_binding_in_that_namespace(
    casconfig_operator, casconfigs: Client, api: Api, namespace
):
    async with fresh_namespace(api) as other:
        before = await casconfigs.create(DEPLOYMENTS, a_deployment("web"), dict[str, Any], namespace=other)
        scope = {"level": "namespace", "namespaces": [other]}
        key = await create(casconfigs, namespace, "reaches", a_policy(labels={"x": "y"}), scope=scope)
        config = await wait_for_reason(casconfigs, key, "Forbidden")
        assert f"in namespace {other}" in config.status.message
        assert comparable_fields(await get_object(casconfigs, other, "web")) == comparable_fields(before)
        await bind(api, other, *EVERYTHING, of=namespace)
        with casconfig_operator.clock.running_fast():
            await wait_until_applied(casconfigs, key, 1)
        seen = await get_object(casconfigs, other, "web")
        assert seen["metadata"]["labels"]["x"] == "y"
        # CASConfigs of two namespaces may share a name.
        assert [
            each
            for each in seen["metadata"]["annotations"]
            if each.startswith("casconfig.openebs.io/reaches_")
        ]
        await delete_and_wait(casconfigs, key)
        assert comparable_fields(await get_object(casconfigs, other, "web")) == comparable_fields(before)


async def test_former_namespaces_are_undone_first_if_the_status_cannot_hold_all(
    casconfig_operator, casconfigs: Client, api: Api, namespace, monkeypatch
):
    monkeypatch.setattr(survey, "MOST_NAMES", 1)
    async with fresh_namespace(api) as other:
        await bind(api, other, *EVERYTHING, of=namespace)
        for each in (namespace, other):
            await casconfigs.create(DEPLOYMENTS, a_deployment("web"), Object, namespace=each)
        before = await get_object(casconfigs, namespace, "web")
        labels = a_policy(labels={"x": "y"})
        key = await create(casconfigs, namespace, "moves", labels)
        await wait_until_applied(casconfigs, key, 1)
        await edit(casconfigs, key, labels, scope={"level": "namespace", "namespaces": [other]})
        config = await wait_until_applied(casconfigs, key, 1)
        assert [each.namespaces for each in config.status.reach] == [(other,)]
        assert comparable_fields(await get_object(casconfigs, namespace, "web")) == comparable_fields(before)
        await delete_and_wait(casconfigs, key)


async def test_cluster_scope_needs_cluster_role_binding(
    casconfig_operator, casconfigs: Client, api: Api, namespace
):
    where = {"labels": {"test": namespace}, "kinds": ["Deployment"]}
    async with fresh_namespace(api) as other:
        for each in (namespace, other):
            body = a_deployment("web", labels={"test": namespace})
            await casconfigs.create(DEPLOYMENTS, body, Object, namespace=each)
        key = await create(
            casconfigs,
            namespace,
            "wide",
            a_policy(include=where, labels={"x": "y"}),
            scope={"level": "cluster"},
        )
        config = await wait_for_reason(casconfigs, key, "Forbidden")
        assert "in the whole cluster" in config.status.message
        path, name = f"/apis/{RBAC}/v1", f"casconfig-{namespace}"
        rule = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": [*VERBS]}
        await api.create(f"{path}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
        subject = {"kind": "ServiceAccount", "name": "casconfig", "namespace": namespace}
        ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
        await api.create(
            f"{path}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]}
        )
        try:
            with casconfig_operator.clock.running_fast():
                config = await wait_until_applied(casconfigs, key, 2)
            assert config.status.reach[0].namespaces == ("*",)
            await delete_and_wait(casconfigs, key)
            for each in (namespace, other):
                assert "x" not in (await get_object(casconfigs, each, "web"))["metadata"]["labels"]
        finally:
            await api.delete(f"{path}/clusterrolebindings/{name}")
            await api.delete(f"{path}/clusterroles/{name}")


FORBIDDEN = {
    "Secret": "Secret",
    "v1/ServiceAccount": "ServiceAccount",
    "Node": "Node",
    "Namespace": "Namespace",
    "rbac.authorization.k8s.io/v1/Role": "Role",
    "RoleBinding": "RoleBinding",
    "ClusterRole": "ClusterRole",
    "ValidatingWebhookConfiguration": "ValidatingWebhookConfiguration",
    "CustomResourceDefinition": "CustomResourceDefinition",
    "CASConfig": "CASConfig",
}


async def test_kinds_that_hold_permissions_or_identities_are_never_targets(
    casconfig_operator, casconfigs: Client, namespace
):
    keys = {}
    for number, (kind, want) in enumerate(FORBIDDEN.items()):
        policy = a_policy(include={"kinds": [kind]}, labels={"x": "y"})
        keys[want] = await create(
            casconfigs, namespace, f"greedy-{number}", policy, scope={"level": "cluster"}
        )
    for want, key in keys.items():
        config = await wait_for_reason(casconfigs, key, "InvalidSpec")
        assert f"a {want} is never a target" in config.status.message
    for key in keys.values():
        await delete_and_wait(casconfigs, key)


async def test_cluster_scoped_kind_needs_scope_level_cluster(
    casconfig_operator, casconfigs: Client, namespace
):
    key = await create(
        casconfigs, namespace, "wide", a_policy(include={"kinds": ["PersistentVolume"]}, labels={"x": "y"})
    )
    config = await wait_for_reason(casconfigs, key, "KindNotUsable")
    assert "requires spec.scope.level cluster" in config.status.message


async def test_operator_and_system_namespaces_are_never_targets(
    casconfigs: Client, api: Api, cluster, namespace
):
    async with fresh_namespace(api) as system:
        await create_service_account(api, namespace)
        await bind(api, system, *EVERYTHING, of=namespace)
        await wait_for_permissions(api, system, of=namespace)
        await casconfigs.create(DEPLOYMENTS, a_deployment("quintet"), Object, namespace=system)
        async with operator(cluster.kubeconfig, namespace=namespace, operator=system):
            for level, where, why in (
                ("namespace", system, "is the namespace of the operator itself"),
                ("cluster", system, "is the namespace of the operator itself"),
                ("cluster", "kube-system", "is not part of level cluster"),
            ):
                scope = {"level": level, "namespaces": [where]}
                key = await create(casconfigs, namespace, "own", a_policy(labels={"x": "y"}), scope=scope)
                config = await wait_for_reason(casconfigs, key, "OutOfScope")
                assert why in config.status.message
                await delete_and_wait(casconfigs, key)
        assert "x" not in (await get_object(casconfigs, system, "quintet"))["metadata"]["labels"]


async def test_forged_ledger_annotation_changes_no_other_object(
    casconfig_operator, casconfigs: Client, namespace
):
    """A user who can annotate a Deployment must not cause writes that the user is not allowed to do."""
    body = a_deployment("web")
    forged = {
        "of": f"{namespace}/real",
        "layer": 1,
        "set": {"serviceAccountName": {"was": "admin", "is": ""}},
    }
    body["metadata"]["annotations"] = {"casconfig.openebs.io/real": json.dumps(forged)}
    before = await casconfigs.create(DEPLOYMENTS, body, dict[str, Any], namespace=namespace)
    await casconfigs.create(DEPLOYMENTS, a_deployment("other"), Object, namespace=namespace)
    key = await create(casconfigs, namespace, "real", a_policy(labels={"x": "y"}))
    config = await wait_for_reason(casconfigs, key, "LedgerUnreadable")
    by_name = {target.name: target for target in config.status.targets}
    assert by_name["web"].reason == "LedgerUnreadable"
    assert (by_name["other"].state, config.status.summary) == (TargetState.APPLIED, "1/2")
    assert comparable_fields(await get_object(casconfigs, namespace, "web")) == comparable_fields(before)


async def test_unreadable_ledger_on_one_target_does_not_stop_changes_and_undo_of_others(
    casconfig_operator, casconfigs: Client, namespace
):
    names = [f"web-{number}" for number in range(5)]
    for name in names:
        await create_object(casconfigs, namespace, a_deployment(name))
    key = await create(casconfigs, namespace, "all", a_policy(labels={"x": "1"}))
    await wait_until_applied(casconfigs, key, 5)
    damage = {"metadata": {"annotations": {"casconfig.openebs.io/all": "y"}}}
    await casconfigs.patch(DEPLOYMENTS, ObjectKey(namespace, "web-2"), damage, Object)
    await edit(casconfigs, key, a_policy(labels={"x": "2"}))
    config = await wait_for_reason(casconfigs, key, "LedgerUnreadable")
    assert config.status.summary == "4/5"
    assert [await label_of(casconfigs, namespace, name) for name in names] == ["2", "2", "1", "2", "2"]

    await casconfigs.delete(CASCONFIGS, key)
    config = await wait_for_reason(casconfigs, key, "UndoFailed")
    assert "Deployment" in config.status.message
    assert "web-2: cannot be undone: LedgerUnreadable" in config.status.message
    assert [await label_of(casconfigs, namespace, name) for name in names] == [None, None, "1", None, None]
    repair = {"metadata": {"annotations": {"casconfig.openebs.io/all": None}}}
    await casconfigs.patch(DEPLOYMENTS, ObjectKey(namespace, "web-2"), repair, Object)
    await wait_until_gone(casconfigs, key)


async def label_of(client: Client, namespace: str, name: str) -> str | None:
    obj = await get_object(client, namespace, name)
    return cast("str | None", obj["metadata"]["labels"].get("x"))


async def test_casconfig_does_not_block_namespace_deletion(
    casconfig_operator, casconfigs: Client, api: Api, namespace
):
    await casconfigs.create(DEPLOYMENTS, a_deployment("web"), Object, namespace=namespace)
    key = await create(casconfigs, namespace, "held", a_policy(labels={"x": "y"}))
    await wait_until_applied(casconfigs, key, 1)
    await api.delete(f"/api/v1/namespaces/{namespace}")
    await wait_until_gone(casconfigs, key, within=120)


async def test_failing_list_does_not_block_namespace_deletion(
    casconfigs: Client, api: Api, proxy: FaultProxy, namespace, tmp_path
):
    await create_service_account(api, namespace)
    await casconfigs.create(DEPLOYMENTS, a_deployment("web"), Object, namespace=namespace)
    kubeconfig = proxy.write_kubeconfig(tmp_path)
    async with operator(kubeconfig, namespace=namespace):
        key = await create(casconfigs, namespace, "held", a_policy(labels={"x": "y"}))
        await wait_until_applied(casconfigs, key, 1)
    answer = Answer(500, "InternalError", "conversion webhook failed")
    proxy.inject(answer, when=matching("list|watch", "deployments"), times=None)
    async with operator(kubeconfig, namespace=namespace) as running:
        await casconfigs.delete(CASCONFIGS, key)
        with running.clock.running_fast():
            await proxy.wait_for(matching("list|watch", "deployments"), since=proxy.trace.mark())
            await api.delete(f"/api/v1/namespaces/{namespace}")
            await wait_until_gone(casconfigs, key, within=120)


@pytest.fixture
async def policed(casconfigs: Client, api: Api):
    """The admission policies as they are installed."""
    path, made = "/apis/admissionregistration.k8s.io/v1", []
    for body in policies(USER_REQUIREMENTS):
        kind = "policies" if body["kind"].endswith("Policy") else "policybindings"
        await api.create(f"{path}/validatingadmission{kind}", body)
        made.append(f"{path}/validatingadmission{kind}/{body['metadata']['name']}")
    yield
    for one in made:
        await api.delete(one)


@pytest.mark.parametrize("may_create_pods", [True, False], ids=["can create pods", "cannot create pods"])
async def test_user_needs_permission_to_create_pods_to_create_casconfig(
    may_create_pods, policed, cluster, api: Api, namespace
):
    base = f"/apis/{RBAC}/v1/namespaces/{namespace}"
    rules = [{"apiGroups": ["openebs.io"], "resources": ["casconfigs"], "verbs": ["create", "get"]}]
    if may_create_pods:
        rules.append({"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]})
    await api.create(f"{base}/roles", {"metadata": {"name": "ann"}, "rules": rules})
    subjects = [{"kind": "User", "name": "ann", "apiGroup": RBAC}]
    ref = {"apiGroup": RBAC, "kind": "Role", "name": "ann"}
    await api.create(
        f"{base}/rolebindings", {"metadata": {"name": "ann"}, "subjects": subjects, "roleRef": ref}
    )
    body = json.dumps(a_config("asked", a_policy(labels={"x": "y"})))

    async def assert_decision() -> None:
        done = cluster.kubectl(
            "create", "--dry-run=server", "-n", namespace, "--as", "ann", "-f", "-", input=body
        )
        assert (done.returncode == 0) == may_create_pods, done.stderr
        assert may_create_pods or "acts as the ServiceAccount casconfig" in done.stderr, done.stderr

    await eventually(assert_decision)  # a new policy takes effect with a delay
