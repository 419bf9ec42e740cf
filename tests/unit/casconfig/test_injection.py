"""What every field of `values` does to an object."""

import pytest

from quintet.apis.casconfig.injection import desired_settings, place_to_inject
from quintet.apis.casconfig.sources import SecretKey
from quintet.apis.casconfig.template import POD
from unit.casconfig.objects import (
    LOW,
    TEMPLATE,
    a_deployment,
    a_policy,
    a_spec,
    container,
    given,
    pod_of,
    policies,
)

SIDECAR = {"name": "proxy", "image": "proxy:1"}


def after(live=None, **values):
    return given(live or a_deployment(), LOW, **values).object


def env(obj, name, kind="containers"):
    return container(obj, name, kind).get("env", [])


def test_labels_and_annotations_are_set_on_the_object_and_not_on_its_pods():
    found = after(labels={"team": "a", "app": "new"}, annotations={"note": "theirs"})
    assert found["metadata"]["labels"] == {"app": "new", "tier": "front", "team": "a"}
    assert found["metadata"]["annotations"]["note"] == "theirs"
    assert found["spec"] == a_deployment()["spec"]


def test_env_is_added_to_containers_and_init_containers():
    found = after(envs={"LEVEL": "debug"})
    want = [{"name": "LEVEL", "value": "debug"}]
    assert env(found, "web") == want, "in the place of the one that was there"
    assert env(found, "log") == want
    assert env(found, "init", "initContainers") == want


def a_deployment_with_a_reference():
    live = a_deployment()
    container(live, "log")["env"] = [
        {"name": "LEVEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    ]
    return live


def test_env_with_value_from_is_skipped_and_reported():
    live = a_deployment_with_a_reference()
    found = desired_settings(policies(envs={"LEVEL": "debug"}), live, {}, TEMPLATE)
    assert [setting.path[1] for setting in found.settings] == ["init", "web"]
    assert [(each.path, each.reason) for each in found.skipped] == [
        ("containers/log/env/LEVEL", "HasValueFrom")
    ]


def test_override_replaces_env_with_value_from():
    found = after(a_deployment_with_a_reference(), envs={"LEVEL": "debug"}, override=True)
    assert env(found, "log") == [{"name": "LEVEL", "value": "debug"}]


def test_last_of_two_env_entries_of_one_name_is_replaced():
    live = a_deployment()
    container(live, "log")["env"] = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    assert env(after(live, envs={"A": "3"}), "log") == [
        {"name": "A", "value": "1"},
        {"name": "A", "value": "3"},
    ]


def test_containers_replace_all_existing_containers():
    found = after(containers=[{"name": "app", "image": "app:1"}, {"name": "web", "image": "web:2"}])
    assert sorted(each["name"] for each in pod_of(found)["containers"]) == ["app", "web"]
    assert container(found, "web") == {"name": "web", "image": "web:2"}, "nothing of the old one stays"
    assert container(found, "init", "initContainers") is not None


def test_main_container_is_the_first_container():
    found = after(mainContainer={"name": "web", "image": "web:2"})
    assert pod_of(found)["containers"] == [
        {"name": "web", "image": "web:2"},
        {"name": "log", "image": "log:1"},
    ]


def test_main_container_of_another_name_keeps_the_first_position():
    found = after(mainContainer={"name": "new", "image": "web:2"})
    assert [each["name"] for each in pod_of(found)["containers"]] == ["new", "log"]


def test_default_container_annotation_selects_the_main_container():
    live = a_deployment()
    live["spec"]["template"]["metadata"]["annotations"] = {"kubectl.kubernetes.io/default-container": "log"}
    found = after(live, mainContainer={"name": "new", "image": "x:1"})
    assert [each["name"] for each in pod_of(found)["containers"]] == ["web", "new"]


def test_maincontainer_is_an_alias_of_main_container():
    assert container(after(maincontainer={"name": "web", "image": "web:2"}), "web")["image"] == "web:2"


def test_sidecar_is_appended_to_the_containers():
    assert [each["name"] for each in pod_of(after(sidecars=[SIDECAR]))["containers"]] == [
        "web",
        "log",
        "proxy",
    ]


def test_sidecar_with_restart_policy_always_is_added_to_init_containers():
    found = after(sidecars=[{**SIDECAR, "restartPolicy": "Always"}])
    assert [each["name"] for each in pod_of(found)["initContainers"]] == ["init", "proxy"]


def test_sidecar_of_an_existing_name_is_merged_by_field():
    live = a_deployment()
    container(live, "log").update(
        resources={"limits": {"cpu": "1", "memory": "1Gi"}},
        ports=[{"containerPort": 80}],
        volumeMounts=[{"name": "a", "mountPath": "/a"}],
        livenessProbe={"exec": {"command": ["true"]}},
    )
    sidecar = {
        "name": "log",
        "resources": {"limits": {"cpu": "2"}},
        "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 90}],
        "volumeMounts": [{"name": "b", "mountPath": "/b"}],
        "livenessProbe": {"tcpSocket": {"port": 80}},
        "args": ["x"],
    }
    assert container(after(live, sidecars=[sidecar]), "log") == {
        "name": "log",
        "image": "log:1",
        "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
        "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 90}],
        "volumeMounts": [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}],
        "livenessProbe": {"tcpSocket": {"port": 80}},
        "args": ["x"],
    }, "a probe has one handler, so it is replaced as a whole"


def test_toleration_is_added_once():
    there, new = {"key": "a", "operator": "Exists"}, {"key": "b"}
    live = a_deployment()
    pod_of(live)["tolerations"] = [there]
    assert pod_of(after(live, tolerations=[{**there, "value": ""}, new, new]))["tolerations"] == [
        {**there, "value": ""},
        new,
    ]


def test_policy_sets_containers_before_env():
    found = after(
        containers=[{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}],
        mainContainer={"name": "c", "image": "c:1"},
        sidecars=[{"name": "b", "image": "b:2"}, SIDECAR],
        envs={"E": "1"},
    )
    assert {each["name"]: each["image"] for each in pod_of(found)["containers"]} == {
        "c": "c:1",
        "b": "b:2",
        "proxy": "proxy:1",
    }
    assert all(each["env"] == [{"name": "E", "value": "1"}] for each in pod_of(found)["containers"])


def test_later_policy_overrides_earlier_policy():
    chosen = a_spec(
        a_policy("one", sidecars=[SIDECAR], envs={"E": "1"}, labels={"a": "1"}),
        a_policy("two", mainContainer={"name": "web", "image": "web:2"}, labels={"a": "2"}),
    ).policies
    found = {
        setting.path: setting.value
        for setting in desired_settings(chosen, a_deployment(), {}, TEMPLATE).settings
    }
    assert found["labels", "a"] == "2"
    assert ("containers", "web", "env", "E") not in found, "the container that it was in is replaced"
    assert found["containers", "proxy"]["env"] == [{"name": "E", "value": "1"}]


FROM = {"kind": "ConfigMap", "name": "c", "path": ".data.x", "toKey": "KEY"}


def taken(to_type, value, **source):
    chosen = policies(**{"from": [{**FROM, **source, "toType": to_type}]})
    return desired_settings(chosen, a_deployment(), {chosen[0].values.sources[0]: value}, TEMPLATE)


@pytest.mark.parametrize(("to_type", "root"), [("label", "labels"), ("annotation", "annotations")])
def test_source_value_becomes_label_or_annotation(to_type, root):
    assert [(each.path, each.value) for each in taken(to_type, "v").settings] == [((root, "KEY"), "v")]


def test_source_value_becomes_env():
    assert {each.value["value"] for each in taken("env", "v").settings} == {"v"}


def test_secret_value_becomes_secret_key_ref_and_never_text():
    found = taken("env", SecretKey("s", "password", "shop"), kind="Secret", path=".data.password")
    want = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}}
    assert [each.value for each in found.settings] == [want] * 3


def test_secret_of_another_namespace_is_skipped_and_reported():
    found = taken("env", SecretKey("s", "password", "vault"), kind="Secret", path=".data.password")
    assert found.settings == ()
    assert [each.reason for each in found.skipped] == ["SecretElsewhere"]


@pytest.mark.parametrize("to_type", ["label", "annotation"])
def test_secret_that_bypassed_validation_becomes_no_label(to_type):
    assert (
        taken(to_type, SecretKey("s", "password", "shop"), kind="Secret", path=".data.password").settings
        == ()
    )


def test_value_from_of_an_earlier_policy_is_replaced():
    source = {**FROM, "kind": "Secret", "path": ".data.password", "toType": "env"}
    chosen = a_spec(a_policy("one", **{"from": [source]}), a_policy("two", envs={"KEY": "plain"})).policies
    value = SecretKey("s", "password", "shop")
    found = desired_settings(chosen, a_deployment(), {chosen[0].values.sources[0]: value}, TEMPLATE)
    assert [each.value for each in found.settings] == [{"name": "KEY", "value": "plain"}] * 3
    assert found.skipped == ()


def test_object_without_pod_template_gets_labels_and_reports_skipped_values():
    service = {"kind": "Service", "metadata": {"name": "web", "namespace": "shop"}}
    found = desired_settings(
        policies(labels={"a": "b"}, envs={"E": "1"}, sidecars=[SIDECAR]), service, {}, None
    )
    assert [each.path for each in found.settings] == [("labels", "a")]
    assert [(each.path, each.reason) for each in found.skipped] == [
        ("sidecars", "NoPodTemplate"),
        ("envs", "NoPodTemplate"),
    ]


def test_running_pod_gets_labels_only():
    pod = {"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "web"}]}}
    found = desired_settings(policies(labels={"a": "b"}, envs={"E": "1"}), pod, {}, place_to_inject(POD))
    assert [each.path for each in found.settings] == [("labels", "a")]
    assert [each.reason for each in found.skipped] == ["PodIsFixed"]


def test_pod_without_containers_gets_its_first_container():
    live = a_deployment()
    live["spec"]["template"]["spec"] = {}
    assert pod_of(after(live, mainContainer=SIDECAR, envs={"E": "1"}))["containers"] == [
        {**SIDECAR, "env": [{"name": "E", "value": "1"}]}
    ]
