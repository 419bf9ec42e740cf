"""Paths and errors read the same everywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.apis.fields import (
    OMITTED,
    SPEC,
    ErrorType,
    FieldError,
    FieldErrors,
    FieldPath,
    InvalidObjectError,
)


def test_paths_are_formatted_like_kubernetes_field_paths():
    assert str(FieldPath("spec").child("params").index(2).child("name")) == "spec.params[2].name"
    assert str(SPEC.child("labels").key("app")) == "spec.labels[app]"
    assert str(SPEC.child("template", "spec")) == "spec.template.spec"
    assert str(FieldPath()) == ""


def test_field_path_is_immutable_value():
    assert SPEC.child("a") == FieldPath("spec", "a")
    assert len({SPEC.child("a"), FieldPath("spec", "a")}) == 1
    assert str(SPEC) == "spec", "making a longer path leaves the shorter one as it was"


@given(st.lists(st.text("abc", min_size=1), min_size=1))
def test_children_are_joined_by_dots(names):
    path = FieldPath()
    for name in names:
        path = path.child(name)
    assert str(path) == ".".join(names)
    assert path == FieldPath(*names)


@pytest.mark.parametrize(
    ("note", "want_text"),
    [
        (lambda e, p: e.required(p), "spec.x: Required value: must be set"),
        (
            lambda e, p: e.invalid(p, -1, "must not be negative"),
            "spec.x: Invalid value: -1: must not be negative",
        ),
        (
            lambda e, p: e.invalid(p, "a", "must be a number", "write 1"),
            'spec.x: Invalid value: "a": must be a number (write 1)',
        ),
        (lambda e, p: e.type_invalid(p, True, "int"), "spec.x: Invalid type: true: must be of type int"),
        (
            lambda e, p: e.not_supported(p, "Dsik", ["Memory", "Disk"]),
            "spec.x: Unsupported value: \"Dsik\": must be one of 'Memory', 'Disk' (did you mean 'Disk'?)",
        ),
        (
            lambda e, p: e.not_supported(p, "zzz", ["a"]),
            "spec.x: Unsupported value: \"zzz\": must be one of 'a'",
        ),
        (lambda e, p: e.not_found(p, "n"), 'spec.x: Not found: "n"'),
        (lambda e, p: e.duplicate(p, "n"), 'spec.x: Duplicate value: "n": must be unique'),
        (lambda e, p: e.too_long(p, 5), "spec.x: Too long: must not be longer than 5 characters"),
        (lambda e, p: e.too_many(p, 7, 5), "spec.x: Too many: has 7 entries and must have at most 5"),
        (
            lambda e, p: e.forbidden(p, "may not be specified when `y` is set"),
            "spec.x: Forbidden: may not be specified when `y` is set",
        ),
        (
            lambda e, p: e.immutable(p, "create a new object"),
            "spec.x: Immutable: must not be changed (create a new object)",
        ),
    ],
    ids=lambda value: value.split(":")[1].strip() if isinstance(value, str) else "",
)
def test_each_error_type_has_its_text(note, want_text):
    errors = FieldErrors()
    note(errors, SPEC.child("x"))
    assert [str(error) for error in errors] == [want_text]


def test_all_errors_of_object_are_raised_together():
    errors = FieldErrors()
    errors.raise_if_any("Checkup shop/ping")
    errors.required(SPEC.child("image"))
    errors.invalid(SPEC.child("timeoutSeconds"), 0, "must be greater than or equal to 1")
    with pytest.raises(InvalidObjectError) as raised:
        errors.raise_if_any("Checkup shop/ping")
    assert str(raised.value) == (
        "Checkup shop/ping is invalid: spec.image: Required value: must be set; "
        "spec.timeoutSeconds: Invalid value: 0: must be greater than or equal to 1"
    )
    assert len(raised.value.errors) == 2


def test_secret_and_long_values_are_omitted_from_messages():
    assert (
        str(FieldError(SPEC, ErrorType.INVALID, OMITTED, "must be a URL"))
        == "spec: Invalid value: must be a URL"
    )
    shown = str(FieldError(SPEC, ErrorType.INVALID, "x" * 10_000, "must be short"))
    assert "(10002 characters)" in shown
    assert len(shown) < 200


def test_error_kinds_have_kubernetes_reasons():
    assert ErrorType.NOT_SUPPORTED.reason == "FieldValueNotSupported"
    assert all(kind.reason.startswith("FieldValue") for kind in ErrorType)
