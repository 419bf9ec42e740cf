"""What a structural schema refuses, value by value; that the API server does the same: integration/test_validate.py."""

import pytest

from quintet.apis.structural import schema_errors, with_schema_defaults

FREE = {"x-kubernetes-preserve-unknown-fields": True}
NAMED = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "at": {"type": "integer", "default": 1}}}  # fmt: skip


def said(schema, value, rules=None):
    """The errors of `spec.x`."""
    whole = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "spec": {"type": "object", "properties": {"x": schema}},
        },
    }
    obj = {"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"}, "spec": {"x": value}, "status": 7}
    return [str(error) for error in schema_errors(whole, obj, rules or {})]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "a"),
        ({"type": "string"}, None),
        ({"type": "integer"}, 3.0),
        ({"type": "integer", "format": "int64"}, 2**40),
        ({"type": "number"}, 3),
        ({"type": "boolean"}, False),
        ({"x-kubernetes-int-or-string": True}, "5%"),
        ({"type": "string", "nullable": True}, None),
        (FREE, [{"any": ["thing", None]}]),
        ({"type": "object", **FREE}, {"a": {"b": None}}),
        ({**FREE, "items": NAMED}, [{"name": "a", "more": 1}]),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"a": "b", "c": None}),
        ({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "at"], "items": NAMED}, [{"name": "a"}, {"name": "a", "at": 2}]),
        ({"type": "string", "format": "date-time"}, "2026-01-31T12:00:00Z"),
    ],
    ids=str,
)  # fmt: skip
def test_matching_value_is_valid(schema, value):
    assert said(schema, value) == []


@pytest.mark.parametrize(
    ("schema", "value", "want"),
    [
        ({"type": "string"}, 7, "spec.x: Invalid type: 7: must be of type string"),
        ({"type": "integer"}, 1.5, "spec.x: Invalid type: 1.5: must be of type integer"),
        ({"type": "integer"}, True, "spec.x: Invalid type: true: must be of type integer"),
        ({"type": "integer", "format": "int32"}, 2**31, "spec.x: Invalid value: 2147483648: must fit 32 bits"),
        ({"x-kubernetes-int-or-string": True}, 1.5, "spec.x: Invalid type: 1.5: must be of type integer or string"),
        ({"type": "integer", "minimum": 1}, 0, "spec.x: Invalid value: 0: must be greater than or equal to 1"),
        ({"type": "integer", "maximum": 1, "exclusiveMaximum": True}, 1, "spec.x: Invalid value: 1: must be less than 1"),
        ({"type": "integer", "multipleOf": 2}, 3, "spec.x: Invalid value: 3: must be a multiple of 2"),
        ({"type": "string", "minLength": 1}, "", 'spec.x: Invalid value: "": must have at least 1 characters'),
        ({"type": "string", "pattern": "^a"}, "b", 'spec.x: Invalid value: "b": must match ^a'),
        ({"type": "string", "enum": ["a", "b"]}, "A", "spec.x: Unsupported value: \"A\": must be one of 'a', 'b'"),
        ({"type": "string", "format": "date-time"}, "now", 'spec.x: Invalid value: "now": must be a time such as 2026-01-31T12:00:00Z'),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 1}, ["a", "b"], "spec.x: Invalid value: must have at most 1 items"),
        ({"type": "array", "items": {"type": "string"}}, [None], "spec.x[0]: Invalid type: null: must be of type string"),
        ({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}, ["a", "a"], 'spec.x[1]: Duplicate value: "a": must be unique'),
        ({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "at"], "items": NAMED}, [{"name": "a"}, {"name": "a", "at": 1}], 'spec.x[1]: Duplicate value: {"name": "a", "at": 1}: must be unique'),
        (NAMED, {}, "spec.x.name: Required value: must be set"),
        (NAMED, {"name": None}, "spec.x.name: Required value: must be set"),
        (NAMED, {"name": "a", "nam": 1}, "spec.x.nam: Unsupported value: there is no such field (did you mean 'name'?)"),
        ({**FREE, "items": NAMED}, [{"more": 1}], "spec.x[0].name: Required value: must be set"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"a": 1}, "spec.x[a]: Invalid type: 1: must be of type string"),
    ],
    ids=str,
)  # fmt: skip
def test_mismatching_value_is_reported(schema, value, want):
    assert said(schema, value) == [want]


def test_rule_is_evaluated_only_for_values_of_correct_type():
    schema = {
        "type": "integer",
        "x-kubernetes-validations": [{"rule": "self > 3", "message": "must be large"}],
    }
    rules = {"self > 3": lambda value: value > 3}
    assert said(schema, 2, rules) == ["spec.x: Invalid value: must be large"]
    assert said(schema, 4, rules) == []
    assert said(schema, "2", rules) == ['spec.x: Invalid type: "2": must be of type integer']
    assert said(schema, 2) == [], "what nobody has said in Python is for the API server"


def test_value_is_read_without_nulls_and_with_defaults():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "kept": {"type": "string", "nullable": True},
            "list": {"type": "array", "items": NAMED},
            "deep": {"type": "object", "default": {}, "properties": {"n": {"type": "integer", "default": 7}}},
            "free": {"type": "object", **FREE},
        },
    }
    read = with_schema_defaults(
        schema, {"a": None, "kept": None, "list": [{"name": "x", "at": None}], "free": {"b": None}}
    )
    assert read == {
        "kept": None,
        "list": [{"name": "x", "at": 1}],
        "deep": {"n": 7},
        "free": {"b": None},
    }
