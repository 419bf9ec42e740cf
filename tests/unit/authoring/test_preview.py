"""Previews of created objects, and the pure parts of `diff`."""

import json

import pytest
from click.testing import CliRunner

from kit.manifests import yamltext
from quintet import kinds
from quintet.authoring.diff import child_differences, differences, three_way
from quintet.authoring.validation import apply_defaults
from quintet.cli.verbs.change.new import new
from quintet.cli.verbs.change.preview import preview
from quintet.cli.verbs.change.validate import validate

SERVER = {
    "apiVersion": "example.com/v1",
    "kind": "JsonServer",
    "metadata": {"name": "app-books", "namespace": "shop"},
    "spec": {"jsonConfig": '{"books": []}'},
}


def run(text: str, *options: str):
    return CliRunner().invoke(preview, ["-f", "-", *options], input=text)


def a_new(kind: str) -> str:
    return CliRunner().invoke(new, [kind], standalone_mode=False).output


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        ("js", ["ConfigMap", "Service", "Deployment"]),
        ("ckup", ["ConfigMap", "Role", "RoleBinding", "Job"]),
        ("stc", ["ControllerRevision", *["PersistentVolumeClaim", "Pod"] * 3]),
        ("casc", []),
        ("evsub", []),
        ("quintet", []),
    ],
)
def test_preview_lists_children_in_creation_order(kind, want):
    answer = run(a_new(kind))
    assert answer.exit_code == 0, answer.output
    assert [each["kind"] for each in yamltext.load_all(answer.stdout) if each] == want


def test_preview_of_backend_has_server_only_without_url():
    own = a_new("evb")
    with_url = own.replace("- maxInFlightMessages: 10", "- url: nats://nats:4222")
    kinds = [
        [each["kind"] for each in yamltext.load_all(run(text).stdout) if each] for text in (own, with_url)
    ]
    assert ("StatefulSet" in kinds[0], "NetworkPolicy" in kinds[0]) == (True, True)
    assert ("StatefulSet" in kinds[1], "NetworkPolicy" in kinds[1]) == (False, False)
    assert kinds[1].count("Deployment") == 2


def test_preview_notes_values_that_only_the_cluster_knows():
    assert "depend on the uid" in run(a_new("ckup")).stdout
    assert "is chosen when a replica is created" in run(a_new("stc")).stdout
    assert "Set spec.mode: Preview" in run(a_new("casc")).stdout.replace("\n# ", " ")
    assert "quintet install --dry-run" in run(a_new("quintet")).stdout


def test_preview_reports_validation_errors_and_skips_the_object():
    bad = {**SERVER, "spec": {"jsonConfig": "[]", "replicas": -1}}
    text = json.dumps(bad) + "\n---\n" + json.dumps(SERVER)
    answer = run(text)
    judged = CliRunner().invoke(validate, ["-f", "-"], input=text)
    assert answer.exit_code == 1
    assert answer.stderr.splitlines() == judged.stdout.splitlines()
    assert [each["kind"] for each in yamltext.load_all(answer.stdout)] == [
        "ConfigMap",
        "Service",
        "Deployment",
    ]


def test_preview_skips_objects_of_other_products():
    answer = run("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: echo}\n")
    assert (answer.exit_code, answer.stdout.strip()) == (0, "")
    assert "1 of other products skipped" in answer.stderr


def test_preview_prints_json():
    answer = run(json.dumps(SERVER), "-o", "json")
    (found,) = json.loads(answer.stdout)["objects"]
    assert (found["kind"], found["namespace"], found["name"]) == ("JsonServer", "shop", "app-books")
    assert [each["kind"] for each in found["children"]] == ["ConfigMap", "Service", "Deployment"]


def test_every_kind_has_a_preview():
    assert all(callable(kinds.load(kind.preview)) for kind in kinds.all_kinds())


def test_three_way_patch_removes_fields_that_are_no_longer_applied():
    applied = {"metadata": {"annotations": {"a": "1"}}, "spec": {"replicas": 2, "image": "x", "kept": [1]}}
    wanted = {"metadata": {"annotations": {}}, "spec": {"replicas": 3, "kept": [1]}}
    assert three_way(applied, wanted) == {
        "metadata": {"annotations": {"a": None}},
        "spec": {"replicas": 3, "image": None, "kept": [1]},
    }


def test_diff_ignores_fields_of_the_server():
    before = apply_defaults(SERVER, "shop")
    before = {
        **before,
        "metadata": {**before["metadata"], "uid": "1", "resourceVersion": "7"},
        "status": {"x": 1},
    }
    after = {**before, "spec": {**before["spec"], "replicas": 3}}
    after["metadata"] = {**after["metadata"], "resourceVersion": "8", "generation": 2}
    lines = differences(before, after)
    assert lines[:2] == ["--- live/JsonServer shop/app-books", "+++ new/JsonServer shop/app-books"]
    assert [line for line in lines[2:] if line[0] in "+-"] == ["-  replicas: 1", "+  replicas: 3"]
    assert differences(before, before) == []


def test_child_diff_shows_only_changed_children():
    before = apply_defaults(SERVER, "shop")
    after = {**before, "spec": {**before["spec"], "replicas": 3}}
    lines = child_differences(before, after)
    assert [line for line in lines if line.startswith("+++")] == ["+++ new/Deployment shop/app-books"]
    assert child_differences(before, before) == []
    assert [line for line in child_differences(None, after) if line.startswith("+++")] == [
        "+++ new/ConfigMap shop/app-books",
        "+++ new/Service shop/app-books",
        "+++ new/Deployment shop/app-books",
    ]
