"""Types become the schema that they say, and unclear types are refused."""

from datetime import datetime
from enum import IntEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from quintet.apis.fields import FieldPath
from quintet.apis.lint import problems
from quintet.apis.markers import (
    ATOMIC,
    DATE_TIME,
    DEFAULTED,
    EMBEDDED_OBJECT,
    FREE_FORM,
    INT64,
    ONE_OR_MANY,
    SET,
    Rule,
    Verbatim,
    list_map,
)
from quintet.apis.meta import JsonObject, Struct
from quintet.apis.schema import SchemaError, struct_schema, type_schema
from quintet.apis.wellknown import Conditions
from unit.apis.sample_kind import LIBRARY, Lending, Library, LibrarySpec, Shelf

HERE = FieldPath("spec", "field")


class Plain(Struct):
    name: Annotated[str, Meta(max_length=5)]


class Recursive(Struct):
    inside: "Recursive | None" = None


class Level(IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    ("hint", "want_schema"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (float, {"type": "number"}),
        (int, {"type": "integer", "format": "int64"}),
        (
            Annotated[int, Meta(ge=0, le=9)],
            {"type": "integer", "format": "int32", "minimum": 0, "maximum": 9},
        ),
        (Annotated[int, Meta(ge=0)], {"type": "integer", "format": "int64", "minimum": 0}),
        (
            Annotated[int, INT64, Meta(ge=0, le=9)],
            {"type": "integer", "format": "int64", "minimum": 0, "maximum": 9},
        ),
        (
            Annotated[float, Meta(gt=0, lt=1)],
            {
                "type": "number",
                "minimum": 0,
                "exclusiveMinimum": True,
                "maximum": 1,
                "exclusiveMaximum": True,
            },
        ),
        (datetime, {"type": "string", "format": "date-time"}),
        (Literal["A", "B"], {"type": "string", "enum": ["A", "B"]}),
        (int | str, {"x-kubernetes-int-or-string": True}),
        (int | str | None, {"x-kubernetes-int-or-string": True}),
        (Annotated[Any, FREE_FORM], {"x-kubernetes-preserve-unknown-fields": True}),
        (Annotated[str | JsonObject | None, FREE_FORM], {"x-kubernetes-preserve-unknown-fields": True}),
        (Annotated[msgspec.Raw, FREE_FORM], {"x-kubernetes-preserve-unknown-fields": True}),
        (Annotated[JsonObject, FREE_FORM], {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (
            Annotated[JsonObject, EMBEDDED_OBJECT],
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            },
        ),
        (dict[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (
            Annotated[dict[str, str], Meta(min_length=1, max_length=2)],
            {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 2,
                "additionalProperties": {"type": "string"},
            },
        ),
        (
            Annotated[list[str], SET, Meta(min_length=1)],
            {"type": "array", "minItems": 1, "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        ),
        (Annotated[Any, Verbatim({"type": "string", "minLength": 3})], {"type": "string", "minLength": 3}),
        (
            Annotated[tuple[Annotated[str, DATE_TIME], ...], ATOMIC],
            {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {"type": "string", "format": "date-time"},
            },
        ),
        (
            dict[str, Annotated[Any, Verbatim({"type": "string"})]],
            {"type": "object", "additionalProperties": {"type": "string"}},
        ),
    ],
    ids=str,
)
def test_type_is_converted_to_schema(hint, want_schema):
    assert type_schema(hint, HERE) == want_schema


@pytest.mark.parametrize(
    ("hint", "want_message"),
    [
        (tuple[str, ...], "spec.field: a list must say how it is merged"),
        (
            Annotated[dict[str, tuple[str, ...]], Meta()],
            r"spec.field\[\*\]: a list must say how it is merged",
        ),
        (Any, "spec.field: any value is allowed; say FREE_FORM"),
        (JsonObject, r"spec.field\[\*\]: any value is allowed; say FREE_FORM"),
        (
            Annotated[tuple[Plain, ...], list_map("other")],
            "its key `other` must be a required or DEFAULTED field",
        ),
        (Level, "use strings"),
        (Literal[1, 2], "use strings"),
        (tuple[int, str], "no structural schema can be made of"),
        (bytes, "no structural schema can be made of"),
        (Plain | Shelf, "no structural schema can be made of"),
        (Recursive, "cannot be recursive"),
    ],
    ids=str,
)
def test_ambiguous_type_is_rejected_with_path(hint, want_message):
    with pytest.raises(SchemaError, match=want_message):
        type_schema(hint, HERE)


def test_defaulted_field_without_default_is_rejected():
    class Spec(Struct):
        size: Annotated[int | None, DEFAULTED] = None

    with pytest.raises(SchemaError, match="size: is DEFAULTED but its struct gives it no default"):
        struct_schema(Spec)


def test_only_marked_defaults_become_schema_defaults():
    properties = struct_schema(LibrarySpec)["properties"]
    defaults = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    assert defaults == {"replicas": 1, "open": True, "storage": "Memory", "lending": {}}
    assert struct_schema(Lending)["properties"]["days"]["default"] == 14


def test_fields_without_default_are_required():
    assert struct_schema(Library)["required"] == ["spec"]
    assert struct_schema(LibrarySpec)["required"] == ["owner"]
    assert "required" not in struct_schema(Lending)


def test_description_comes_from_field_or_type():
    properties = struct_schema(LibrarySpec)["properties"]
    assert properties["replicas"]["description"] == "How many copies run."
    assert properties["lending"]["description"] == "How books are lent."
    assert properties["storage"]["description"] == "Where what the library lends is kept."
    assert properties["shelves"]["items"]["description"] == "A place for books of one sort."


def test_descriptions_lose_line_breaks_but_keep_paragraphs():
    class Spec(Struct):
        """One
        line.

        Another
        paragraph.
        """

    assert struct_schema(Spec)["description"] == "One line.\n\nAnother paragraph."


def test_rules_are_placed_where_declared():
    assert struct_schema(Shelf)["x-kubernetes-validations"] == [
        {
            "rule": "!has(self.used) || self.used <= self.capacity",
            "messageExpression": "'must not be more than fits on ' + self.name",
            "fieldPath": ".used",
            "reason": "FieldValueInvalid",
        }
    ]
    assert struct_schema(LibrarySpec)["properties"]["owner"]["x-kubernetes-validations"] == [
        {"rule": "self == oldSelf", "message": "must not be changed"}
    ]
    rule = Rule("oldSelf.hasValue()", "must stay", optional_old_self=True)
    assert rule.schema()["optionalOldSelf"] is True


def test_field_can_be_named_rules():
    class Policy(Struct):
        rules: Annotated[tuple[str, ...], ATOMIC] = ()

    assert list(struct_schema(Policy)) == ["type", "properties"]


def test_bounds_of_alias_and_use_are_merged():
    properties = struct_schema(Shelf)["properties"]
    assert properties["name"] == {
        "description": "What the shelf is called.",
        "type": "string",
        "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$",
        "minLength": 1,
        "maxLength": 63,
    }


def test_conditions_schema_matches_metav1():
    schema = type_schema(Conditions, FieldPath("status", "conditions"))
    assert schema["x-kubernetes-list-type"] == "map"
    assert schema["x-kubernetes-list-map-keys"] == ["type"]
    item = schema["items"]
    assert item["required"] == ["lastTransitionTime", "message", "reason", "status", "type"]
    bounds = {
        name: {key: value for key, value in field.items() if key != "description"}
        for name, field in item["properties"].items()
    }
    assert bounds == {
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "message": {"type": "string", "maxLength": 32768},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "reason": {
            "type": "string",
            "maxLength": 1024,
            "minLength": 1,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "type": {
            "type": "string",
            "maxLength": 316,
            "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
    }


def test_sample_kind_has_no_schema_problems():
    assert problems(struct_schema(LIBRARY.type)) == []


def test_one_or_many_accepts_both_and_keeps_item_fields():
    class Item(Struct):
        name: str

    schema = type_schema(Annotated[Annotated[tuple[Item, ...], Meta(max_length=3)] | Item, ONE_OR_MANY], HERE)
    assert "type" not in schema
    assert schema["x-kubernetes-preserve-unknown-fields"] is True
    assert schema["maxItems"] == 3
    assert schema["items"]["required"] == ["name"]


def test_lint_names_every_missing_part():
    class Inner(Struct):
        count: Annotated[int, Meta(description="d"), Rule("self > 1")]

    class Spec(Struct):
        name: str
        inner: Annotated[Inner, Meta(description="d")]
        words: Annotated[tuple[str, ...], ATOMIC, Meta(description="d")]
        notes: Annotated[dict[str, str], Meta(description="d", max_length=3)]

    class Object(Struct):
        spec: Annotated[Spec, Meta(description="d")]

    assert problems(struct_schema(Object)) == [
        "spec.name: has no description",
        "spec.name: has no maxLength",
        "spec.inner.count: has no minimum",
        "spec.inner.count: the rule `self > 1` has no message",
        "spec.words: has no maxItems",
        "spec.words[*]: has no maxLength",
        "spec.notes[*]: has no maxLength",
    ]


@given(low=st.integers(-(2**40), 2**40), high=st.integers(-(2**40), 2**40))
def test_integer_is_int32_only_if_both_bounds_fit(low, high):
    schema = type_schema(Annotated[int, Meta(ge=low, le=high)], HERE)
    want = all(-(2**31) <= bound < 2**31 for bound in (low, high))
    assert (schema["format"] == "int32") is want
