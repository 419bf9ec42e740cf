"""JSON schemas for kubeconform: strict where the API server is, and open where it is not."""

import jsonschema
import pytest

from kit.manifests.json_schemas import close_schema, schemas_from_crd, schemas_from_openapi

META = {"type": "object", "properties": {"name": {"type": "string"}}}
THING = {
    "type": "object",
    "properties": {
        "metadata": {"allOf": [{"$ref": "#/components/schemas/Meta"}], "default": {}},
        "spec": {"$ref": "#/components/schemas/Spec"},
    },
    "x-kubernetes-group-version-kind": [{"group": "", "kind": "Thing", "version": "v1"}],
}
# A recursive type, as in the schema of a CRD.
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


def is_valid(schema, value):
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
    ((name, schema),) = schemas_from_openapi(DOCUMENT)
    assert name == "thing_v1_v1.json"
    assert "Unused" not in schema["definitions"]
    assert is_valid(schema, value) == want_right


def test_schema_from_crd_includes_object_metadata():
    version = {"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": META}}}}
    body = {"spec": {"group": "a.b", "names": {"kind": "Thing"}, "versions": [version]}}
    ((name, schema),) = schemas_from_crd(body)
    assert name == "thing_a.b_v1.json"
    assert is_valid(
        schema, {"apiVersion": "a.b/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {"name": "y"}}
    )
    assert not is_valid(schema, {"apiVersion": "a.b/v1", "kind": "Thing", "specs": {}})


def test_schema_allows_fields_that_api_server_preserves():
    assert is_valid(close_schema({**META, "x-kubernetes-preserve-unknown-fields": True}), {"any": 1})
    assert is_valid(close_schema({"x-kubernetes-int-or-string": True}), "50%")
    assert is_valid(close_schema({"type": "string", "nullable": True}), None)


def test_conditional_schema_does_not_forbid_other_fields():
    condition = {"anyOf": [{"properties": {"a": {"minimum": 1}}, "required": ["a"]}, {"required": ["b"]}]}
    schema = close_schema(
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, **condition}
    )
    assert is_valid(schema, {"a": 1, "b": 0})
    assert not is_valid(schema, {"a": 0})
