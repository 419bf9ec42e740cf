"""The lifecycle of a CASConfig on a real API server: the values that it sets, skips and restores."""

from typing import Any

import pytest

from kit.cluster.api import Api
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy, anything
from kit.kinds import jsonservers
from kit.kinds.casconfigs import (
    CONFIG_MAPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    IMAGE,
    STATEFUL_SETS,
    VERBS,
    a_deployment,
    a_policy,
    a_workload,
    bind,
    comparable_fields,
    create,
    create_object,
    create_service_account,
    delete_and_wait,
    edit,
    get_object,
    template_of,
    wait_for_reason,
    wait_until_applied,
    wait_until_gone,
)
from kit.kinds.casconfigs import casconfig_operator as operator
from kit.kinds.statefulclusters import list_objects
from kit.kinds.widgets import WIDGETS, a_widget
from quintet.apis.casconfig import CASCONFIGS
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource, find_condition
from quintet.kube.client import PODS, Client

WORKLOADS = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, CRON_JOBS)


def container(template: JsonObject, name: str) -> JsonObject:
    (found,) = [each for each in template["spec"]["containers"] if each["name"] == name]
    return found


def env(template: JsonObject, name: str) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container(template, name).get("env", ())}


NEW = {"name": "new", "image": "quintet.local/other:2"}
VALUES: dict[str, tuple[dict[str, Any], Any]] = {
    "labels": ({"labels": {"tier": "gold"}}, lambda obj: obj["metadata"]["labels"]["tier"] == "gold"),
    "annotations": (
        {"annotations": {"note.example.com/by": "us"}},
        lambda obj: obj["metadata"]["annotations"]["note.example.com/by"] == "us",
    ),
    "envs": (
        {"envs": {"LEVEL": "debug"}},
        lambda obj: (
            env(template_of(obj), "main") == {"KEPT": "yes", "LEVEL": "debug"}
            and env(template_of(obj), "second") == {"LEVEL": "debug"}
            and template_of(obj)["spec"]["initContainers"][0]["env"] == [{"name": "LEVEL", "value": "debug"}]
        ),
    ),
    "containers": (
        {"containers": [NEW]},
        lambda obj: [each["name"] for each in template_of(obj)["spec"]["containers"]] == ["new"],
    ),
    "mainContainer": (
        {"mainContainer": {"name": "main", "image": "quintet.local/other:2"}},
        lambda obj: (
            container(template_of(obj), "main")["image"] == "quintet.local/other:2"
            and container(template_of(obj), "second")["image"] == IMAGE
        ),
    ),
    "sidecars": (
        {"sidecars": [NEW, {"name": "second", "args": ["--more"]}]},
        lambda obj: (
            [each["name"] for each in template_of(obj)["spec"]["containers"]] == ["main", "second", "new"]
            and container(template_of(obj), "second")["args"] == ["--more"]
        ),
    ),
    "tolerations": (
        {"tolerations": [{"key": "extra", "operator": "Exists"}]},
        lambda obj: [each["key"] for each in template_of(obj)["spec"]["tolerations"]] == ["there", "extra"],
    ),
}


@pytest.mark.parametrize("field", VALUES)
async def test_casconfig_sets_each_value_on_every_workload_and_deletion_restores_it(
    field, casconfig_operator, casconfigs: Client, namespace
):
    values, arrived = VALUES[field]
    before = {
        resource: await create_object(casconfigs, namespace, a_workload(resource, "web"), resource)
        for resource in WORKLOADS
    }
    include = {"kinds": [resource.kind for resource in WORKLOADS], "names": ["web"]}
    key = await create(casconfigs, namespace, "all", a_policy(include=include, **values))
    await wait_until_applied(casconfigs, key, len(WORKLOADS))
    for resource in WORKLOADS:
        seen = await get_object(casconfigs, namespace, "web", resource)
        assert arrived(seen), f"{resource.kind}: {seen}"
        assert "casconfig.openebs.io/all" in seen["metadata"]["annotations"]
    await delete_and_wait(casconfigs, key)
    for resource in WORKLOADS:
        after = await get_object(casconfigs, namespace, "web", resource)
        assert comparable_fields(after) == comparable_fields(before[resource]), resource.kind


async def test_casconfig_sets_only_labels_and_annotations_on_custom_resource_without_pod_template(
    casconfig_operator, casconfigs: Client, widgets: Client, api: Api, namespace
):
    await bind(api, namespace, {"apiGroups": ["test.quintet.dev"], "resources": ["widgets"], "verbs": [*VERBS]},
               account="casconfig", name="widgets")  # fmt: skip
    before = await create_object(casconfigs, namespace, a_widget("one", text="kept"), WIDGETS)
    policy = a_policy(
        include={"kinds": ["test.quintet.dev/v1/Widget"]},
        labels={"a": "1"},
        annotations={"b": "2"},
        envs={"X": "y"},
    )
    key = await create(casconfigs, namespace, "custom", policy)
    config = await wait_until_applied(casconfigs, key, 1)
    seen = await get_object(casconfigs, namespace, "one", WIDGETS)
    assert (seen["metadata"]["labels"], seen["metadata"]["annotations"]["b"]) == ({"a": "1"}, "2")
    assert seen["spec"] == before["spec"]
    (target,) = config.status.targets
    assert (target.reason, target.message) == ("NoPodTemplate", "a Widget has no pod template")
    await delete_and_wait(casconfigs, key)
    assert comparable_fields(await get_object(casconfigs, namespace, "one", WIDGETS)) == comparable_fields(
        before
    )


async def test_casconfig_changes_jsonserver_and_skips_its_children(
    casconfig_operator, casconfigs: Client, api: Api, cluster, namespace
):
    await jsonservers.install(casconfigs)
    rule = {"apiGroups": ["example.com"], "resources": ["jsonservers"], "verbs": [*VERBS]}
    await bind(api, namespace, rule, name="jsonservers")
    async with jsonservers.jsonserver_operator(cluster.kubeconfig, namespace=namespace):
        body = jsonservers.a_jsonserver("app-books")
        await create_object(casconfigs, namespace, body, JSONSERVERS)
        where = ObjectKey(namespace, "app-books")
        await jsonservers.wait_for_state(casconfigs, where, "Synced")
        before = await get_object(casconfigs, namespace, "app-books", JSONSERVERS)
        include = {"kinds": ["JsonServer", "Deployment"]}
        policy = a_policy(include=include, labels={"tier": "gold"}, annotations={"note": "ours"})
        key = await create(casconfigs, namespace, "servers", policy)
        config = await wait_until_applied(casconfigs, key, 1)
        states = {target.kind: (target.state, target.reason) for target in config.status.targets}
        assert states == {
            "example.com/v1/JsonServer": ("Applied", ""),
            "apps/v1/Deployment": ("Skipped", "Controlled"),
        }
        seen = await get_object(casconfigs, namespace, "app-books", JSONSERVERS)
        assert seen["metadata"]["labels"]["tier"] == "gold"
        await delete_and_wait(casconfigs, key)
        after = await get_object(casconfigs, namespace, "app-books", JSONSERVERS)
        assert comparable_fields(after) == comparable_fields(before)


async def test_later_policy_overrides_values_of_earlier_policy(
    casconfig_operator, casconfigs: Client, namespace
):
    await create_object(casconfigs, namespace, a_deployment("web"))
    policies = [a_policy("first", envs={"A": "1", "B": "1"}), a_policy("second", envs={"B": "2"})]
    key = await create(casconfigs, namespace, "two", *policies)
    config = await wait_until_applied(casconfigs, key, 1)
    assert config.status.targets[0].policy == "first,second"
    seen = await get_object(casconfigs, namespace, "web")
    assert env(template_of(seen), "main") == {"KEPT": "yes", "A": "1", "B": "2"}


async def test_policy_without_kinds_selects_every_kind_with_pod_template_that_service_account_can_list(
    casconfig_operator, casconfigs: Client, namespace
):
    for resource in (DEPLOYMENTS, CRON_JOBS):
        body = a_workload(resource, "web")
        body["metadata"]["labels"]["team"] = "shop"
        await create_object(casconfigs, namespace, body, resource)
    configmap = {"metadata": {"name": "web", "labels": {"team": "shop"}}}
    await create_object(
        casconfigs, namespace, {"apiVersion": "v1", "kind": "ConfigMap", **configmap}, CONFIG_MAPS
    )
    policy = a_policy(include={"labels": {"team": "shop"}}, annotations={"note": "ours"})
    key = await create(casconfigs, namespace, "any", policy)
    config = await wait_until_applied(casconfigs, key, 2)
    assert {target.kind for target in config.status.targets} == {"apps/v1/Deployment", "batch/v1/CronJob"}
    await delete_and_wait(casconfigs, key)


async def test_new_matching_target_is_changed_and_no_longer_matching_target_is_restored(
    casconfig_operator, casconfigs: Client, namespace
):
    policy = a_policy(include={"kinds": ["Deployment"], "labels": {"team": "a"}}, envs={"X": "1"})
    key = await create(casconfigs, namespace, "follow", policy)
    config = await wait_for_reason(casconfigs, key, "NoTargets")
    assert (config.status.summary, config.status.matched) == ("0/0", 0)
    before = await create_object(casconfigs, namespace, a_deployment("web", labels={"team": "a"}))
    await wait_until_applied(casconfigs, key, 1)
    where = ObjectKey(namespace, "web")
    await casconfigs.patch(DEPLOYMENTS, where, {"metadata": {"labels": {"team": "b"}}}, Object)

    async def assert_undone() -> None:
        after = comparable_fields(await get_object(casconfigs, namespace, "web"))
        assert after == {**comparable_fields(before), "labels": {"app": "web", "team": "b"}}

    await eventually(assert_undone)
    await wait_for_reason(casconfigs, key, "NoTargets")


async def test_value_removed_from_casconfig_is_removed_from_targets(
    casconfig_operator, casconfigs: Client, namespace
):
    before = await create_object(casconfigs, namespace, a_deployment("web"))
    policies = [a_policy("one", envs={"A": "1", "B": "1"}), a_policy("two", labels={"x": "y"})]
    key = await create(casconfigs, namespace, "shrinks", *policies)
    await wait_until_applied(casconfigs, key, 1)
    await edit(casconfigs, key, a_policy("one", envs={"B": "2"}))
    await wait_until_applied(casconfigs, key, 1)
    seen = await get_object(casconfigs, namespace, "web")
    assert env(template_of(seen), "main") == {"KEPT": "yes", "B": "2"}
    assert seen["metadata"]["labels"] == {"app": "web"}
    await delete_and_wait(casconfigs, key)
    assert comparable_fields(await get_object(casconfigs, namespace, "web")) == comparable_fields(before)


async def test_changing_kind_in_policy_restores_targets_of_previous_kind(
    casconfig_operator, casconfigs: Client, namespace
):
    before = await create_object(casconfigs, namespace, a_deployment("web"))
    await create_object(casconfigs, namespace, a_workload(STATEFUL_SETS, "web"), STATEFUL_SETS)
    key = await create(casconfigs, namespace, "moves", a_policy(labels={"x": "y"}))
    await wait_until_applied(casconfigs, key, 1)
    await edit(casconfigs, key, a_policy(include={"kinds": ["StatefulSet"]}, labels={"x": "y"}))

    async def assert_moved() -> None:
        assert comparable_fields(await get_object(casconfigs, namespace, "web")) == comparable_fields(before)
        other = await get_object(casconfigs, namespace, "web", STATEFUL_SETS)
        assert other["metadata"]["labels"]["x"] == "y"

    await eventually(assert_moved)
    config = await wait_until_applied(casconfigs, key, 1)
    assert [(each.kind, each.namespaces) for each in config.status.reach] == [
        ("apps/v1/StatefulSet", (namespace,))
    ]


async def test_two_casconfigs_on_one_target_can_be_deleted_in_any_order(
    casconfig_operator, casconfigs: Client, namespace
):
    before = await create_object(casconfigs, namespace, a_deployment("web"))
    lower = await create(casconfigs, namespace, "lower", a_policy(envs={"LEVEL": "low", "ONLY": "lower"}))
    await wait_until_applied(casconfigs, lower, 1)
    upper = await create(casconfigs, namespace, "upper", a_policy(envs={"LEVEL": "high"}))
    await wait_until_applied(casconfigs, upper, 1)

    async def level() -> dict[str, str]:
        return env(template_of(await get_object(casconfigs, namespace, "web")), "main")

    assert await level() == {"KEPT": "yes", "LEVEL": "high", "ONLY": "lower"}
    await delete_and_wait(casconfigs, lower)
    assert await level() == {"KEPT": "yes", "LEVEL": "high"}
    again = await create(casconfigs, namespace, "lower", a_policy(envs={"OTHER": "x"}))
    await wait_until_applied(casconfigs, again, 1)
    await delete_and_wait(casconfigs, upper)
    assert await level() == {"KEPT": "yes", "OTHER": "x"}
    await delete_and_wait(casconfigs, again)
    assert comparable_fields(await get_object(casconfigs, namespace, "web")) == comparable_fields(before)


async def test_deletion_keeps_and_reports_values_that_others_changed(
    casconfigs: Client, api: Api, cluster, namespace
):
    await create_service_account(api, namespace)
    before = await create_object(casconfigs, namespace, a_deployment("web"))
    async with operator(cluster.kubeconfig, namespace=namespace):
        policy = a_policy(labels={"a": "ours", "b": "ours"}, envs={"X": "1"})
        key = await create(casconfigs, namespace, "leaves", policy)
        await wait_until_applied(casconfigs, key, 1)
    # While no operator runs, so that it is neither restored nor contested.
    where = ObjectKey(namespace, "web")
    await casconfigs.patch(DEPLOYMENTS, where, {"metadata": {"labels": {"a": "theirs"}}}, Object)
    await casconfigs.delete(CASCONFIGS, key)
    async with operator(cluster.kubeconfig, namespace=namespace):
        await wait_until_gone(casconfigs, key)
        after = comparable_fields(await get_object(casconfigs, namespace, "web"))
        assert after == {**comparable_fields(before), "labels": {"app": "web", "a": "theirs"}}

        async def assert_reported() -> None:
            found = (await api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"))["items"]
            notes = [each["note"] for each in found if each["reason"] == "LeftAsFound"]
            assert notes == [f"CASConfig {key}: not undone, because another manager changed it: labels/a"], (
                found
            )

        await eventually(assert_reported)


async def test_value_from_configmap_is_copied_and_updated_with_its_source(
    casconfig_operator, casconfigs: Client, namespace
):
    await create_object(casconfigs, namespace, a_deployment("web"))
    source = {
        "kind": "ConfigMap",
        "name": "settings",
        "path": ".data.level",
        "toType": "env",
        "toKey": "LEVEL",
    }
    label = {**source, "toType": "label", "toKey": "level"}
    key = await create(
        casconfigs, namespace, "taken", a_policy(**{"from": [source, label]}, envs={"ALSO": "this"})
    )
    config = await wait_for_reason(casconfigs, key, "WaitingForSource")
    assert f"there is no ConfigMap {namespace}/settings" in config.status.message
    assert env(template_of(await get_object(casconfigs, namespace, "web")), "main") == {"KEPT": "yes"}, (
        "half applied"
    )
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": {"level": "low"},
    }
    await create_object(casconfigs, namespace, body, CONFIG_MAPS)
    await wait_until_applied(casconfigs, key, 1)
    await casconfigs.patch(CONFIG_MAPS, ObjectKey(namespace, "settings"), {"data": {"level": "high"}}, Object)

    async def assert_followed() -> None:
        seen = await get_object(casconfigs, namespace, "web")
        assert env(template_of(seen), "main") == {"KEPT": "yes", "ALSO": "this", "LEVEL": "high"}
        assert seen["metadata"]["labels"]["level"] == "high"

    await eventually(assert_followed)
    await casconfigs.delete(CONFIG_MAPS, ObjectKey(namespace, "settings"))
    await wait_for_reason(casconfigs, key, "WaitingForSource")
    await assert_followed()


async def test_value_from_secret_becomes_secret_key_reference(
    casconfig_operator, casconfigs: Client, namespace
):
    await create_object(casconfigs, namespace, a_deployment("web"))
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "db"},
        "stringData": {"password": "hunter2"},
    }
    await create_object(casconfigs, namespace, secret, Resource("", "v1", "Secret", "secrets"))
    source = {"kind": "Secret", "name": "db", "path": ".data.password", "toType": "env", "toKey": "PASSWORD"}
    key = await create(casconfigs, namespace, "secret", a_policy(**{"from": [source]}))
    await wait_until_applied(casconfigs, key, 1)
    main = container(template_of(await get_object(casconfigs, namespace, "web")), "main")
    reference = {"secretKeyRef": {"name": "db", "key": "password"}}
    assert {"name": "PASSWORD", "valueFrom": reference} in main["env"]


async def test_variable_with_value_from_is_reported_and_replaced_only_with_override(
    casconfig_operator, casconfigs: Client, namespace
):
    body = a_deployment("web")
    body["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    ]
    before = await create_object(casconfigs, namespace, body)
    key = await create(casconfigs, namespace, "from", a_policy(envs={"NODE": "us"}))
    config = await wait_until_applied(casconfigs, key, 1)
    assert config.status.targets[0].reason == "HasValueFrom"
    conflicted = find_condition(config.status.conditions, "Conflicted")
    assert (conflicted.status, conflicted.reason) == ("True", "ValuesNotSet")
    main = container(template_of(await get_object(casconfigs, namespace, "web")), "main")
    assert "valueFrom" in main["env"][0]
    await edit(casconfigs, key, a_policy(envs={"NODE": "us"}, override=True))
    await wait_until_applied(casconfigs, key, 1)
    assert env(template_of(await get_object(casconfigs, namespace, "web")), "main") == {"NODE": "us"}
    await delete_and_wait(casconfigs, key)
    assert comparable_fields(await get_object(casconfigs, namespace, "web")) == comparable_fields(before)


async def test_more_matches_than_max_targets_change_nothing(
    casconfig_operator, casconfigs: Client, namespace
):
    before = [await create_object(casconfigs, namespace, a_deployment(f"web-{n}")) for n in range(3)]
    key = await create(casconfigs, namespace, "wide", a_policy(labels={"x": "y"}), maxTargets=2)
    config = await wait_for_reason(casconfigs, key, "TooManyTargets")
    assert "3 objects match and spec.maxTargets is 2" in config.status.message
    after = [await get_object(casconfigs, namespace, f"web-{n}") for n in range(3)]
    assert list(map(comparable_fields, after)) == list(map(comparable_fields, before))
    await edit(casconfigs, key, maxTargets=3)
    await wait_until_applied(casconfigs, key, 3)


async def test_terminating_target_is_skipped(casconfig_operator, casconfigs: Client, namespace):
    body = a_deployment("going")
    body["metadata"]["finalizers"] = ["test.quintet.dev/hold"]
    await create_object(casconfigs, namespace, body)
    where = ObjectKey(namespace, "going")
    await casconfigs.delete(DEPLOYMENTS, where)
    await create_object(casconfigs, namespace, a_deployment("staying"))
    key = await create(casconfigs, namespace, "some", a_policy(labels={"x": "y"}))
    await wait_until_applied(casconfigs, key, 1)
    assert "x" not in (await get_object(casconfigs, namespace, "going"))["metadata"]["labels"]
    await casconfigs.patch(DEPLOYMENTS, where, {"metadata": {"finalizers": []}}, Object)


async def test_owned_pod_is_skipped_and_bare_pod_gets_only_metadata(
    casconfig_operator, casconfigs: Client, namespace
):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare"},
           "spec": {"containers": [{"name": "main", "image": IMAGE}]}}  # fmt: skip
    before = await create_object(casconfigs, namespace, pod, PODS)
    await create_object(casconfigs, namespace, a_deployment("web", replicas=1))

    async def made() -> str:
        (pod,) = await list_objects(casconfigs, PODS, namespace, "app=web")
        return str(pod["metadata"]["name"])

    owned = await eventually(made)
    policy = a_policy(include={"kinds": ["Pod"]}, labels={"x": "y"}, envs={"X": "1"})
    key = await create(casconfigs, namespace, "pods", policy)
    config = await wait_until_applied(casconfigs, key, 1)
    states = {target.name: (target.state, target.reason) for target in config.status.targets}
    assert states == {"bare": ("Applied", "PodIsFixed"), owned: ("Skipped", "Controlled")}
    assert (await get_object(casconfigs, namespace, "bare", PODS))["metadata"]["labels"] == {"x": "y"}
    await delete_and_wait(casconfigs, key)
    after = await get_object(casconfigs, namespace, "bare", PODS)
    assert after["metadata"].get("labels") == before["metadata"].get("labels")


async def test_casconfig_in_desired_state_sends_no_request(
    casconfig_operator, casconfigs: Client, proxy: FaultProxy, namespace
):
    await create_object(casconfigs, namespace, a_deployment("web"))
    key = await create(casconfigs, namespace, "calm", a_policy(envs={"X": "1"}))
    await wait_until_applied(casconfigs, key, 1)
    await proxy.quiet(1.0, anything)  # Events follow the status
    start = len(list(proxy.trace))
    await casconfigs.patch(
        DEPLOYMENTS, ObjectKey(namespace, "web"), {"spec": {"replicas": 0, "paused": True}}, Object
    )
    await casconfigs.patch(CASCONFIGS, key, {"metadata": {"labels": {"looked": "at"}}}, Object)
    await proxy.quiet(1.0)
    later = [str(each) for each in list(proxy.trace)[start:] if each.request.verb != "watch"]
    assert later == []


async def test_events_are_recorded_on_casconfig_and_on_target(
    casconfig_operator, casconfigs: Client, api: Api, namespace
):
    await create_object(casconfigs, namespace, a_deployment("web"))
    key = await create(casconfigs, namespace, "told", a_policy(labels={"x": "y"}))
    await wait_until_applied(casconfigs, key, 1)
    await delete_and_wait(casconfigs, key)

    async def assert_reported() -> None:
        found = (await api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"))["items"]
        seen = {(each["regarding"]["kind"], each["reason"]) for each in found}
        assert {("CASConfig", "Applied"), ("Deployment", "Injected"), ("Deployment", "Restored")} <= seen, (
            seen
        )

    await eventually(assert_reported)
