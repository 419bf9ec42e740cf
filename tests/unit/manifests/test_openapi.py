"""Kubernetes' own schemas become structural ones, and nothing of their shape is lost."""

import json

import pytest

from quintet.manifests.openapi import as_text, compact, load_schemas, refine, structural_schema

ROOT = "io.k8s.api.apps.v1.StatefulSetSpec"
REFERENCE = "#/components/schemas/"


def document(properties, **others):
    root = {"type": "object", "properties": properties, "required": ["a"]}
    return {"components": {"schemas": {ROOT: root, "unused": {"type": "object"}, **others}}}


def made(properties, **others):
    return structural_schema(compact(document(properties, **others)), ROOT)["properties"]


def test_only_what_the_spec_leads_to_is_kept_and_its_prose_is_not():
    found = compact(
        document(
            {"a": {"allOf": [{"$ref": f"{REFERENCE}x"}], "description": "Prose."}},
            x={"type": "object", "properties": {"description": {"type": "string", "description": "Prose."}}},
        )
    )
    assert list(found) == [ROOT, "x"]
    assert found["x"]["properties"] == {"description": {"type": "string"}}
    assert "Prose" not in as_text(found)
    assert json.loads(as_text(found)) == found


def test_references_are_written_out():
    x = {"type": "object", "properties": {"b": {"type": "string"}}}
    assert made({"a": {"allOf": [{"$ref": f"{REFERENCE}x"}], "default": {}}}, x=x)["a"] == x


def test_zero_values_are_no_defaults():
    assert made({"a": {"type": "string", "default": ""}})["a"] == {"type": "string"}


def test_a_key_of_a_list_that_may_be_left_out_keeps_its_default():
    port = {
        "type": "object",
        "required": ["port"],
        "properties": {
            "port": {"type": "integer", "default": 0},
            "protocol": {"type": "string", "default": "TCP"},
        },
    }
    keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"]}
    listed = made({"a": {"type": "array", "items": {"$ref": f"{REFERENCE}port"}, **keys}}, port=port)["a"]
    assert {key: listed[key] for key in keys} == keys
    assert listed["items"]["properties"] == {
        "port": {"type": "integer"},
        "protocol": {"type": "string", "default": "TCP"},
    }


def test_a_list_without_a_type_is_written_as_a_whole():
    assert (
        made({"a": {"type": "array", "items": {"type": "string"}}})["a"]["x-kubernetes-list-type"] == "atomic"
    )


def test_an_optional_choice_may_be_empty_and_a_required_one_not():
    choice = {"type": "string", "enum": ["x"]}
    found = made({"a": choice, "b": choice, "c": {"type": "string", "enum": ["", "x"]}})
    assert found["a"]["enum"] == ["x"]
    assert found["b"]["enum"] == ["x", ""]
    assert found["c"]["enum"] == ["", "x"]


def test_an_object_of_unknown_shape_keeps_everything():
    assert made({"a": {"type": "object"}})["a"] == {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }


def test_a_map_is_no_object_of_unknown_shape():
    assert made({"a": {"type": "object", "additionalProperties": {"type": "string"}}})["a"] == {
        "type": "object",
        "additionalProperties": {"type": "string"},
    }


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", {"x-kubernetes-int-or-string": True}),
        ("io.k8s.apimachinery.pkg.api.resource.Quantity", {"x-kubernetes-preserve-unknown-fields": True}),
    ],
)
def test_types_that_are_more_than_one_are_said_as_a_definition_says_them(name, want):
    assert made({"a": {"allOf": [{"$ref": f"{REFERENCE}{name}"}]}}, **{name: {"oneOf": []}})["a"] == want


def test_ours_adds_bounds_and_never_changes_the_shape():
    theirs = {
        "type": "object",
        "properties": {"a": {"type": "integer", "format": "int32"}, "b": {"type": "string"}},
    }
    ours = {
        "type": "object",
        "required": ["a"],
        "description": "Both.",
        "properties": {"a": {"type": "string", "minimum": 0, "default": 1, "description": "One."}},
    }
    assert refine(theirs, ours) == {
        "description": "Both.",
        "type": "object",
        "properties": {
            "a": {"description": "One.", "type": "integer", "format": "int32", "default": 1, "minimum": 0},
            "b": {"type": "string"},
        },
    }


def test_a_field_that_kubernetes_does_not_have_is_a_mistake():
    with pytest.raises(KeyError, match="misspelt"):
        refine({"type": "object", "properties": {}}, {"properties": {"misspelt": {"type": "string"}}})


def test_the_committed_input_is_in_the_form_that_the_command_writes():
    from quintet.manifests.openapi import INPUT

    assert INPUT.read_text() == as_text(load_schemas())


def test_every_keyword_of_the_result_is_one_that_a_definition_may_have():
    allowed = {
        "type", "format", "enum", "required", "default", "properties", "items", "additionalProperties",
        "x-kubernetes-map-type", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
        "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields",
    }  # fmt: skip

    def keywords(schema):
        yield from schema
        for child in schema.get("properties", {}).values():
            yield from keywords(child)
        for key in ("items", "additionalProperties"):
            if key in schema:
                yield from keywords(schema[key])

    assert set(keywords(structural_schema(load_schemas(), ROOT))) <= allowed
