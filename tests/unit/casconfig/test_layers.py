"""Undo, and several configs on one object: what is put back, what is left, and who stays above whom."""

import pytest

from quintet.apis.casconfig.layers import Left, beneath, build_rewrite, original, record_layer, restore_layer
from quintet.apis.casconfig.ledger import PREFIX
from quintet.apis.casconfig.places import ABSENT
from quintet.apis.meta import ObjectKey
from unit.casconfig.objects import HIGH, LOW, TEMPLATE, a_deployment, container, edited, given, pod_of
from unit.casconfig.server import applied

SIDECAR = {"name": "proxy", "image": "proxy:1"}
EVERYTHING = {
    "labels": {"app": "new", "team": "a"},
    "annotations": {"note": "theirs", "more": "b"},
    "envs": {"LEVEL": "debug", "NEW": "1"},
    "containers": [{"name": "app", "image": "app:1"}],
    "mainContainer": {"name": "main", "image": "main:1"},
    "sidecars": [SIDECAR, {**SIDECAR, "name": "native", "restartPolicy": "Always"}],
    "tolerations": [{"key": "a"}],
}


@pytest.mark.parametrize("fields", [*([field] for field in EVERYTHING), list(EVERYTHING)], ids=str)
def test_undo_restores_the_object_byte_for_byte(fields):
    live = a_deployment()
    after = given(live, LOW, **{field: EVERYTHING[field] for field in fields}).object
    assert after != live
    assert build_rewrite(after, LOW, ()).object == live


def test_change_and_ledger_are_one_patch_with_resource_version():
    rewrite = given(a_deployment(), LOW, labels={"team": "a"})
    guard, *operations = rewrite.patch
    assert guard == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    assert {each["path"] for each in operations} == {
        "/metadata/labels/team",
        "/metadata/annotations/casconfig.openebs.io~1low",
    }
    assert applied(a_deployment(), rewrite.patch) == rewrite.object


def test_values_in_place_give_an_empty_patch():
    after = given(a_deployment(), LOW, **EVERYTHING).object
    assert given(after, LOW, **EVERYTHING).patch == ()


def test_undo_of_an_unknown_config_gives_an_empty_patch():
    assert build_rewrite(a_deployment(), LOW, ()).patch == ()


def test_undo_skips_and_reports_values_that_others_changed():
    after = given(a_deployment(), LOW, labels={"app": "new", "team": "a"}).object
    rewrite = build_rewrite(edited(after, lambda obj: obj["metadata"]["labels"].update(team="z")), LOW, ())
    assert rewrite.object["metadata"]["labels"] == {"app": "web", "tier": "front", "team": "z"}
    assert rewrite.left == (Left("labels/team", "z"),)
    assert PREFIX not in str(rewrite.object)


def test_undo_of_merged_container_succeeds_after_an_edit_of_another_field():
    live = a_deployment()
    after = given(live, LOW, sidecars=[{"name": "web", "args": ["x"]}], envs={"NEW": "1"}).object
    rewrite = build_rewrite(edited(after, lambda obj: container(obj, "web").update(image="web:2")), LOW, ())
    assert container(rewrite.object, "web") == {**container(live, "web"), "image": "web:2"}
    assert rewrite.left == ()


def test_undo_skips_and_reports_a_sidecar_that_others_changed():
    after = given(a_deployment(), LOW, sidecars=[SIDECAR]).object
    rewrite = build_rewrite(
        edited(after, lambda obj: container(obj, "proxy").update(image="proxy:2")), LOW, ()
    )
    assert container(rewrite.object, "proxy") == {**SIDECAR, "image": "proxy:2"}
    assert [each.path for each in rewrite.left] == ["containers/proxy"]


def test_reapply_after_foreign_sidecar_change_leaves_nothing_after_undo():
    live = a_deployment()
    after = given(live, LOW, sidecars=[SIDECAR]).object
    rewrite = given(
        edited(after, lambda obj: container(obj, "proxy").update(image="proxy:2")), LOW, sidecars=[SIDECAR]
    )
    assert container(rewrite.object, "proxy") == SIDECAR
    assert rewrite.retaken == ("containers/proxy",)
    assert build_rewrite(rewrite.object, LOW, ()).object == live


def test_label_that_others_changed_is_set_again_and_restored_by_undo():
    after = given(a_deployment(), LOW, labels={"app": "new"}).object
    rewrite = given(
        edited(after, lambda obj: obj["metadata"]["labels"].update(app="z")), LOW, labels={"app": "new"}
    )
    assert rewrite.retaken == ("labels/app",)
    assert rewrite.object["metadata"]["labels"]["app"] == "new"
    assert build_rewrite(rewrite.object, LOW, ()).object["metadata"]["labels"]["app"] == "z"


def test_undo_does_not_restore_what_others_removed():
    after = given(a_deployment(), LOW, labels={"app": "new"}, sidecars=[SIDECAR]).object

    def edit(obj):
        del obj["metadata"]["labels"]["app"]
        pod_of(obj)["containers"] = [each for each in pod_of(obj)["containers"] if each["name"] != "proxy"]

    rewrite = build_rewrite(edited(after, edit), LOW, ())
    assert "app" not in rewrite.object["metadata"]["labels"]
    assert container(rewrite.object, "proxy") is None
    assert rewrite.left == (Left("labels/app", ABSENT),)


def test_value_removed_from_the_config_is_removed_from_the_object():
    after = given(a_deployment(), LOW, labels={"app": "new", "team": "a"}, envs={"NEW": "1"}).object
    rewrite = given(after, LOW, labels={"team": "b"})
    assert rewrite.object["metadata"]["labels"] == {"app": "web", "tier": "front", "team": "b"}
    assert rewrite.object["spec"] == a_deployment()["spec"]
    assert rewrite.paths == ("labels/team",)


def two_layers():
    low = given(a_deployment(), LOW, labels={"app": "low"}, envs={"LEVEL": "low"}, sidecars=[SIDECAR]).object
    return given(low, HIGH, labels={"app": "high"}, envs={"LEVEL": "high", "NEW": "high"}).object


def seen(obj):
    proxy = container(obj, "proxy")
    return (
        obj["metadata"]["labels"]["app"],
        [each["value"] for each in container(obj, "web").get("env", [])],
        [each["value"] for each in (proxy or {}).get("env", [])] if proxy else None,
    )


def test_later_config_is_the_upper_layer():
    assert seen(two_layers()) == ("high", ["high", "high"], ["high", "high"])


def test_undo_of_upper_config_reveals_lower_values():
    assert seen(build_rewrite(two_layers(), HIGH, ()).object) == ("low", ["low"], ["low"])


def test_undo_of_lower_config_keeps_upper_values():
    assert seen(build_rewrite(two_layers(), LOW, ()).object) == ("high", ["high", "high"], None)


@pytest.mark.parametrize("order", [(LOW, HIGH), (HIGH, LOW)], ids=["lower first", "upper first"])
def test_undo_of_both_configs_restores_the_original(order):
    left = two_layers()
    for config in order:
        left = build_rewrite(left, config, ()).object
    assert left == a_deployment()


def test_edit_of_lower_config_shows_only_where_upper_sets_nothing():
    rewrite = given(two_layers(), LOW, labels={"app": "low2", "team": "low2"})
    assert rewrite.object["metadata"]["labels"] == {"app": "high", "tier": "front", "team": "low2"}
    assert build_rewrite(rewrite.object, HIGH, ()).object["metadata"]["labels"]["app"] == "low2"


def test_two_configs_with_equal_values_write_them_once():
    low = given(a_deployment(), LOW, labels={"app": "same"}).object
    both = given(low, HIGH, labels={"app": "same"}).object
    rewrite = build_rewrite(both, LOW, ())
    assert [each["path"] for each in rewrite.patch if "labels" in each["path"]] == []
    assert build_rewrite(rewrite.object, HIGH, ()).object == a_deployment()


def test_configs_of_one_name_in_two_namespaces_are_two_layers():
    other = ObjectKey("elsewhere", LOW.name)
    both = given(given(a_deployment(), LOW, labels={"a": "1"}).object, other, labels={"a": "2"}).object
    assert build_rewrite(both, other, ()).object["metadata"]["labels"]["a"] == "1"
    assert build_rewrite(build_rewrite(both, other, ()).object, LOW, ()).object == a_deployment()


def test_lower_config_that_removes_a_container_removes_upper_values_in_it():
    high = given(a_deployment(), LOW, labels={"a": "1"}).object
    high = given(high, HIGH, envs={"NEW": "1"}).object
    rewrite = given(high, LOW, containers=[{"name": "app", "image": "app:1"}])
    assert [each["name"] for each in pod_of(rewrite.object)["containers"]] == ["app"]
    assert build_rewrite(build_rewrite(rewrite.object, LOW, ()).object, HIGH, ()).object == a_deployment()


def test_different_order_is_no_change():
    low = given(a_deployment(), LOW, sidecars=[SIDECAR]).object
    mixed = edited(low, lambda obj: pod_of(obj)["containers"].append({"name": "theirs", "image": "x:1"}))
    rewrite = given(mixed, LOW, sidecars=[SIDECAR])
    assert rewrite.patch == ()


def test_restored_container_keeps_the_order_of_its_env():
    live = a_deployment()
    container(live, "web")["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}]
    low = given(
        live, LOW, mainContainer={"name": "web", "image": "web:2", "env": [{"name": "B", "value": "b"}]}
    )
    both = given(low.object, HIGH, envs={"A": "high"}).object
    assert [each["name"] for each in container(both, "web")["env"]] == ["B", "A"]
    assert build_rewrite(build_rewrite(both, LOW, ()).object, HIGH, ()).object == live


def test_config_that_lists_its_containers_in_another_order_gets_that_order():
    main = given(a_deployment(), LOW, mainContainer={"name": "main", "image": "main:1"}).object
    both = [{"name": "app", "image": "app:1"}, {"name": "main", "image": "main:1"}]
    after = given(main, LOW, containers=both).object
    assert [each["name"] for each in pod_of(after)["containers"]] == ["app", "main"]
    assert build_rewrite(after, LOW, ()).object == a_deployment()


def test_undo_restores_the_first_container_position():
    live = a_deployment()
    low = given(live, LOW, mainContainer={"name": "main", "image": "main:1"}).object
    both = given(low, HIGH, sidecars=[{"name": "web", "image": "web:2"}]).object
    assert [each["name"] for each in pod_of(both)["containers"]] == ["main", "log", "web"]
    assert build_rewrite(build_rewrite(both, LOW, ()).object, HIGH, ()).object == live


def test_api_server_defaults_and_formats_are_not_foreign_changes():
    sidecar = {**SIDECAR, "resources": {"limits": {"cpu": "1000m"}}, "tty": False, "env": []}
    after = given(a_deployment(), LOW, sidecars=[sidecar]).object

    def store(obj):
        stored = container(obj, "proxy")
        stored.update(imagePullPolicy="IfNotPresent", terminationMessagePath="/dev/termination-log")
        stored.update(terminationMessagePolicy="File", resources={"limits": {"cpu": "1"}})
        del stored["tty"], stored["env"]

    stored = edited(after, store)
    assert given(stored, LOW, sidecars=[sidecar]).patch == ()
    assert build_rewrite(stored, LOW, ()).object == a_deployment()


def test_values_can_be_set_again_after_undo():
    after = given(a_deployment(), LOW, **EVERYTHING).object
    again = restore_layer(
        build_rewrite(after, LOW, ()).object, LOW, record_layer(after, LOW), TEMPLATE
    ).object
    assert pod_of(again) == pod_of(after)
    assert again["metadata"] == after["metadata"]


def test_object_beneath_a_layer_contains_lower_layers_only():
    assert seen(beneath(two_layers(), HIGH)) == ("low", ["low"], ["low"])
    assert beneath(two_layers(), LOW) == a_deployment()
    assert original(two_layers()) == a_deployment()


def test_input_object_is_not_modified():
    live = two_layers()
    kept = edited(live, lambda obj: None)
    build_rewrite(live, LOW, ())
    given(live, LOW, **EVERYTHING)
    assert live == kept
