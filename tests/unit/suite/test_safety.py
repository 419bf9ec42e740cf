"""Which changes of a definition are refused while objects of it are there."""

import copy

import pytest

from quintet.components import CUSTOM_RESOURCES
from quintet.controllers.suite.decide.safety import unsafe_changes
from quintet.manifests.crd import custom_resource_definition
from unit.apis.sample_kind import LIBRARY

PLACE = "versions[v1].schema"


def a_definition(**spec_schema):
    schema = {"type": "object", "properties": {"spec": {"type": "object", **spec_schema}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}, "scale": {}},
        "selectableFields": [{"jsonPath": ".spec.a"}],
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [version],
        }
    }


def with_field(**schema):
    return a_definition(properties={"a": {"type": "string", **schema}})


def test_unchanged_crd_is_safe():
    for kind in (*CUSTOM_RESOURCES, LIBRARY):
        assert unsafe_changes(custom_resource_definition(kind), custom_resource_definition(kind)) == []


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(with_field(), a_definition(properties={}), f"{PLACE}.spec.a: the field is removed", id="a field is removed"),
        pytest.param(
            with_field(),
            a_definition(properties={"a": {"type": "integer"}}),
            f"{PLACE}.spec.a: type changes from string to integer",
            id="a field is of another type",
        ),
        pytest.param(
            a_definition(properties={}),
            a_definition(properties={"a": {"type": "string"}}, required=["a"]),
            f"{PLACE}.spec.a: the field is now required",
            id="a new field is required",
        ),
        pytest.param(with_field(maxLength=9), with_field(maxLength=8), f"{PLACE}.spec.a: maxLength is tightened from 9 to 8", id="an upper bound is lowered"),
        pytest.param(with_field(), with_field(maxLength=8), f"{PLACE}.spec.a: maxLength is tightened from nothing to 8", id="an upper bound is new"),
        pytest.param(with_field(minLength=1), with_field(minLength=2), f"{PLACE}.spec.a: minLength is tightened from 1 to 2", id="a lower bound is raised"),
        pytest.param(with_field(), with_field(pattern="^a$"), f"{PLACE}.spec.a: pattern is tightened from nothing to ^a$", id="a pattern is new"),
        pytest.param(with_field(enum=["x", "y"]), with_field(enum=["x"]), f"{PLACE}.spec.a: no longer allows y", id="a choice is removed"),
        pytest.param(with_field(), with_field(enum=["x"]), f"{PLACE}.spec.a: only the values of the new enum are allowed", id="there is a choice now"),
        pytest.param(with_field(default="x"), with_field(default="y"), f"{PLACE}.spec.a: the default changes from x to y", id="a default is another"),
        pytest.param(with_field(), with_field(default="y"), f"{PLACE}.spec.a: the default changes from nothing to y", id="a field gets a default"),
        pytest.param(with_field(nullable=True), with_field(), f"{PLACE}.spec.a: null is no longer allowed", id="null is refused"),
        pytest.param(
            with_field(),
            with_field(**{"x-kubernetes-validations": [{"rule": "self != ''"}]}),
            f"{PLACE}.spec.a: the rule `self != ''` is new",
            id="a rule is new",
        ),
        pytest.param(
            a_definition(properties={"a": {"type": "array", "items": {"type": "string", "maxLength": 9}}}),
            a_definition(properties={"a": {"type": "array", "items": {"type": "string", "maxLength": 8}}}),
            f"{PLACE}.spec.a[]: maxLength is tightened from 9 to 8",
            id="a bound of items is lowered",
        ),
        pytest.param(
            a_definition(additionalProperties={"type": "string", "maxLength": 9}),
            a_definition(additionalProperties={"type": "string", "maxLength": 8}),
            f"{PLACE}.spec[*]: maxLength is tightened from 9 to 8",
            id="a bound of the values of a map is lowered",
        ),
    ],
)  # fmt: skip
def test_breaking_change_is_reported_with_its_path(old, new, want):
    assert unsafe_changes(old, new) == [want]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(a_definition(properties={}), with_field(default="x"), id="a new field with a default"),
        pytest.param(with_field(maxLength=8), with_field(maxLength=9), id="an upper bound is raised"),
        pytest.param(with_field(minLength=2), with_field(), id="a lower bound is gone"),
        pytest.param(with_field(enum=["x"]), with_field(enum=["x", "y"]), id="a choice more"),
        pytest.param(with_field(pattern="^a$"), with_field(), id="a pattern is gone"),
        pytest.param(
            with_field(**{"x-kubernetes-validations": [{"rule": "self != ''"}]}),
            with_field(),
            id="a rule is gone",
        ),
        pytest.param(with_field(description="One."), with_field(description="Two."), id="other words"),
        pytest.param(
            with_field(),
            a_definition(**{"x-kubernetes-preserve-unknown-fields": True}),
            id="everything is kept",
        ),
        pytest.param(
            a_definition(properties={"a": {"type": "string"}}, required=["a"]),
            with_field(),
            id="no longer required",
        ),
    ],
)
def test_loosening_change_is_safe(old, new):
    assert unsafe_changes(old, new) == []


def changed(change, before=None):
    old = copy.deepcopy(before or with_field())
    new = copy.deepcopy(old)
    change(new["spec"])
    return unsafe_changes(old, new)


def two_versions(**second):
    """A definition whose objects are stored as v1; v2 is beside it."""
    made = with_field()
    v1 = made["spec"]["versions"][0]
    made["spec"]["versions"].append({**copy.deepcopy(v1), "name": "v2", "storage": False, **second})
    made["status"] = {"storedVersions": ["v1"]}
    return made


def drop(name):
    def change(spec):
        spec["versions"] = [each for each in spec["versions"] if each["name"] != name]

    return change


SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
HOOK = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}


@pytest.mark.parametrize(
    ("change", "want"),
    [
        (lambda spec: spec.update(group="other.com"), "spec.group: changes from example.com to other.com"),
        (lambda spec: spec.update(scope="Cluster"), "spec.scope: changes from Namespaced to Cluster"),
        (lambda spec: spec["names"].update(kind="Other"), "spec.names.kind: changes from Thing to Other"),
        (
            lambda spec: spec["names"].update(plural="others"),
            "spec.names.plural: changes from things to others",
        ),
        (
            lambda spec: spec["names"].update(listKind="Things"),
            "spec.names.listKind: changes from the usual one to Things",
        ),
        (lambda spec: spec["versions"][0].update(name="v2"), "versions[v1]: is removed"),
        (lambda spec: spec["versions"][0].update(served=False), "versions[v1]: is no longer served"),
        (
            lambda spec: spec["versions"][0]["subresources"].pop("scale"),
            "versions[v1].subresources.scale: is removed",
        ),
        (
            lambda spec: spec["versions"][0].pop("selectableFields"),
            "versions[v1].selectableFields: .spec.a is removed",
        ),
    ],
)
def test_changed_names_scope_or_group_are_unsafe(change, want):
    assert changed(change) == [want]


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["names"].update(shortNames=["th"], categories=["all"], singular="a-thing"),
        lambda spec: spec["names"].update(listKind="ThingList"),
        lambda spec: spec["versions"][0].update(additionalPrinterColumns=[{"name": "A", "jsonPath": ".spec.a"}]),
        lambda spec: spec["versions"][0].update(deprecated=True, deprecationWarning="use v2"),
        lambda spec: spec["versions"][0]["selectableFields"].append({"jsonPath": ".spec.b"}),
        lambda spec: spec.update(conversion={"strategy": "None"}),
        lambda spec: spec.update(conversion=HOOK),
    ],
    ids=[
        "names that only people use",
        "the usual name of a list",
        "columns",
        "a version is deprecated",
        "one more selectable field",
        "what is the default anyway",
        "a conversion for versions to come",
    ],
)  # fmt: skip
def test_cosmetic_changes_are_safe(change):
    assert changed(change) == []


def test_removed_short_names_are_safe():
    old = with_field()
    old["spec"]["names"]["shortNames"] = ["th"]
    assert unsafe_changes(old, with_field()) == []


def test_changed_scale_paths_are_unsafe():
    old, new = with_field(), with_field()
    old["spec"]["versions"][0]["subresources"]["scale"] = SCALE
    new["spec"]["versions"][0]["subresources"]["scale"] = {**SCALE, "specReplicasPath": ".spec.size"}
    place = "versions[v1].subresources.scale.specReplicasPath"
    assert unsafe_changes(old, new) == [f"{place}: changes from .spec.replicas to .spec.size"]


def test_no_longer_preserving_unknown_fields_is_unsafe():
    old = with_field()
    old["spec"]["preserveUnknownFields"] = True
    want = ["spec.preserveUnknownFields: unknown fields are no longer preserved"]
    assert unsafe_changes(old, with_field()) == want


def test_added_version_with_equal_schema_is_safe():
    add = lambda spec: spec["versions"].append({**spec["versions"][0], "name": "v2", "storage": False})  # noqa: E731
    assert changed(add) == []


def test_added_version_without_conversion_must_accept_stored_objects():
    def add(spec):
        narrower = with_field(maxLength=5)["spec"]["versions"][0]
        spec["versions"].append({**narrower, "name": "v2", "storage": False})

    place = "versions[v2].schema.spec.a"
    why = "for objects stored as v1, and there is no conversion"
    assert changed(add) == [f"{place}: maxLength is tightened from nothing to 5, {why}"]
    # A webhook can make of them what the new version wants.
    assert changed(lambda spec: (add(spec), spec.update(conversion=HOOK))) == []


def test_unused_version_can_be_removed():
    assert changed(drop("v2"), two_versions(served=False)) == []


def test_stored_version_cannot_be_removed():
    old = two_versions(served=False)
    old["status"]["storedVersions"].append("v2")
    want = "versions[v2]: is removed, and status.storedVersions says that objects may be stored in it"
    assert changed(drop("v2"), old) == [want]


def test_served_version_cannot_be_removed():
    assert changed(drop("v2"), two_versions()) == ["versions[v2]: is removed"]


def test_storage_version_can_change():
    def switch(spec):
        for each in spec["versions"]:
            each["storage"] = not each["storage"]

    assert changed(switch, two_versions()) == []


def test_conversion_cannot_be_removed():
    old = two_versions()
    old["spec"]["conversion"] = HOOK
    want = ["spec.conversion: objects are no longer converted between versions"]
    assert changed(lambda spec: spec.update(conversion={"strategy": "None"}), old) == want
    assert changed(lambda spec: spec.pop("conversion"), old) == want
    other = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1", "v2"]}}
    assert changed(lambda spec: spec.update(conversion=other), old) == []
