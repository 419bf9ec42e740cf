"""Schemas for kubeconform: closed where the server is strict, and open where it is not."""

import jsonschema
import pytest

from kit.manifests.json_schemas import closed, of_definition, of_server

META = {"type": "object", "properties": {"name": {"type": "string"}}}
THING = {
    "type": "object",
    "properties": {
        "metadata": {"allOf": [{"$ref": "#/components/schemas/Meta"}], "default": {}},
        "spec": {"$ref": "#/components/schemas/Spec"},
    },
    "x-kubernetes-group-version-kind": [{"group": "", "kind": "Thing", "version": "v1"}],
}
# A type that holds itself, as the schema of a definition does.
SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "format": "int32"},
        "inner": {"$ref": "#/components/schemas/Spec"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
DOCUMENT = {"components": {"schemas": {"Meta": META, "Spec": SPEC, "Thing": THING, "Unused": {}}}}


def fits(schema, value):
    return not list(jsonschema.Draft202012Validator(schema).iter_errors(value))


@pytest.mark.parametrize(
    ("value", "want_right"),
    [
        ({"metadata": {"name": "x"}, "spec": {"size": 1}}, True),
        ({"spec": {"size": 1, "inner": {"size": 2, "labels": {"any": "text"}}}}, True),
        ({"metadata": {"nam": "x"}}, False),
        ({"spec": {"size": 1, "inner": {"size": 2, "colour": "red"}}}, False),
        ({"spec": {"size": "1"}}, False),
        ({"spec": {}}, False),
        ({"spec": {"size": 1, "labels": {"any": 1}}}, False),
    ],
)
def test_schema_from_api_server_allows_only_its_fields(value, want_right):
    ((name, schema),) = of_server(DOCUMENT)
    assert name == "thing_v1_v1.json"
    assert "Unused" not in schema["definitions"]
    assert fits(schema, value) == want_right


def test_schema_from_crd_includes_object_metadata():
    version = {"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": META}}}}
    body = {"spec": {"group": "a.b", "names": {"kind": "Thing"}, "versions": [version]}}
    ((name, schema),) = of_definition(body)
    assert name == "thing_a.b_v1.json"
    assert fits(
        schema, {"apiVersion": "a.b/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {"name": "y"}}
    )
    assert not fits(schema, {"apiVersion": "a.b/v1", "kind": "Thing", "specs": {}})


def test_schema_allows_fields_that_api_server_preserves():
    assert fits(closed({**META, "x-kubernetes-preserve-unknown-fields": True}), {"any": 1})
    assert fits(closed({"x-kubernetes-int-or-string": True}), "50%")
    assert fits(closed({"type": "string", "nullable": True}), None)


def test_conditional_schema_does_not_forbid_other_fields():
    condition = {"anyOf": [{"properties": {"a": {"minimum": 1}}, "required": ["a"]}, {"required": ["b"]}]}
    schema = closed(
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, **condition}
    )
    assert fits(schema, {"a": 1, "b": 0})
    assert not fits(schema, {"a": 0})
