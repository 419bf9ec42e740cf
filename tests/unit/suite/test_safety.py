"""Which changes of a definition are refused while objects of it are there."""

import copy

import pytest

from quintet.components import CUSTOM_RESOURCES
from quintet.controllers.suite.safety import unsafe_changes
from quintet.manifests.crd import definition
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


def test_nothing_is_unsafe_about_no_change():
    for kind in (*CUSTOM_RESOURCES, LIBRARY):
        assert unsafe_changes(definition(kind), definition(kind)) == []


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
        pytest.param(with_field(), with_field(enum=["x"]), f"{PLACE}.spec.a: only some values are allowed now", id="there is a choice now"),
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
            a_definition(**{"x-kubernetes-preserve-unknown-fields": True}),
            a_definition(properties={"a": {"type": "string"}}),
            f"{PLACE}.spec: fields that it does not name are no longer kept",
            id="free-form becomes a list of fields",
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
def test_a_change_that_could_break_an_object_is_named_with_its_place(old, new, want):
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
def test_a_change_that_only_loosens_is_safe(old, new):
    assert unsafe_changes(old, new) == []


def changed(change):
    new = copy.deepcopy(with_field())
    change(new["spec"])
    return unsafe_changes(with_field(), new)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        (lambda spec: spec.update(scope="Cluster"), "spec.scope: changes from Namespaced to Cluster"),
        (lambda spec: spec["names"].update(kind="Other"), "spec.names.kind: changes from Thing to Other"),
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
def test_what_surrounds_the_schema_must_stay(change, want):
    assert changed(change) == [want]


def test_a_version_beside_the_old_one_is_safe():
    assert changed(lambda spec: spec["versions"].append({**spec["versions"][0], "name": "v2"})) == []
