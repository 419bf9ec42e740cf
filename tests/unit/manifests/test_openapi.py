"""Kubernetes' own schemas become structural ones, and nothing of their shape is lost."""

import json

import pytest

from quintet.apis.kubernetes_schemas import load_schemas, structural_schema
from quintet.manifests.openapi import as_text, compact, refine

ROOT = "io.k8s.api.apps.v1.StatefulSetSpec"
REFERENCE = "#/components/schemas/"


def document(properties, **others):
    root = {"type": "object", "properties": properties, "required": ["a"]}
    return {"components": {"schemas": {ROOT: root, "unused": {"type": "object"}, **others}}}


def made(properties, **others):
    return structural_schema(compact(document(properties, **others)), ROOT)["properties"]


def test_compact_schema_keeps_only_referenced_types_without_descriptions():
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


def test_references_are_inlined():
    x = {"type": "object", "properties": {"b": {"type": "string"}}}
    assert made({"a": {"allOf": [{"$ref": f"{REFERENCE}x"}], "default": {}}}, x=x)["a"] == x


def test_zero_value_defaults_are_removed():
    assert made({"a": {"type": "string", "default": ""}})["a"] == {"type": "string"}


def test_optional_list_map_key_keeps_its_default():
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


def test_list_without_type_is_atomic():
    assert (
        made({"a": {"type": "array", "items": {"type": "string"}}})["a"]["x-kubernetes-list-type"] == "atomic"
    )


def test_optional_enum_allows_empty_value():
    choice = {"type": "string", "enum": ["x"]}
    found = made({"a": choice, "b": choice, "c": {"type": "string", "enum": ["", "x"]}})
    assert found["a"]["enum"] == ["x"]
    assert found["b"]["enum"] == ["x", ""]
    assert found["c"]["enum"] == ["", "x"]


def test_object_without_properties_preserves_unknown_fields():
    assert made({"a": {"type": "object"}})["a"] == {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }


def test_map_keeps_additional_properties():
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
def test_int_or_string_types_use_kubernetes_extensions(name, want):
    assert made({"a": {"allOf": [{"$ref": f"{REFERENCE}{name}"}]}}, **{name: {"oneOf": []}})["a"] == want


def test_refinement_adds_bounds_without_changing_structure():
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


def test_field_unknown_to_kubernetes_is_an_error():
    with pytest.raises(KeyError, match="misspelt"):
        refine({"type": "object", "properties": {}}, {"properties": {"misspelt": {"type": "string"}}})


def test_committed_openapi_input_is_normalised():
    from quintet.apis.kubernetes_schemas import SOURCE as INPUT

    assert INPUT.read_text() == as_text(load_schemas())


def test_result_uses_only_keywords_allowed_in_crds():
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
