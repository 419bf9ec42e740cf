"""Labels and selectors are what Kubernetes takes them for."""

import pytest

from quintet.apis.fields import SPEC, FieldErrors
from quintet.apis.labels import (
    Requirement,
    Selector,
    check_labels,
    check_selector,
    is_dns_label,
    is_key,
    is_value,
    matches,
)

LABELS = {"app": "web", "tier": "back"}


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param(Selector(), True, id="an empty selector selects everything"),
        pytest.param(Selector({"app": "web"}), True, id="a label that is there"),
        pytest.param(Selector({"app": "web", "tier": "front"}), False, id="one of two labels differs"),
        pytest.param(Selector({}, (Requirement("app", "In", ("web", "api")),)), True, id="In"),
        pytest.param(Selector({}, (Requirement("zone", "In", ("a",)),)), False, id="In, without the label"),
        pytest.param(Selector({}, (Requirement("app", "NotIn", ("web",)),)), False, id="NotIn"),
        pytest.param(
            Selector({}, (Requirement("zone", "NotIn", ("a",)),)), True, id="NotIn, without the label"
        ),
        pytest.param(Selector({}, (Requirement("app", "Exists"),)), True, id="Exists"),
        pytest.param(Selector({}, (Requirement("app", "DoesNotExist"),)), False, id="DoesNotExist"),
        pytest.param(Selector({}, (Requirement("app", "Near"),)), False, id="an operator that there is not"),
    ],
)
def test_selector_matches_labels_and_expressions(selector, want):
    assert matches(selector, LABELS) is want


@pytest.mark.parametrize("key", ["app", "app.kubernetes.io/name", "a_b.c-d", "A", "x" * 63])
def test_valid_label_keys_are_accepted(key):
    assert is_key(key)


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a/b/c", "-a", "a-", "Upper.io/a", "x" * 64, "é", f"{'a' * 254}/b"]
)
def test_invalid_label_keys_are_rejected(key):
    assert not is_key(key)


def test_label_value_may_be_empty_and_has_at_most_63_characters():
    assert is_value("")
    assert is_value("x" * 63)
    assert not is_value("x" * 64)
    assert not is_value("a b")


def test_dns_label_starts_and_ends_with_letter_or_digit():
    assert is_dns_label("a-1")
    assert not any(map(is_dns_label, ("", "-a", "a-", "A", "a.b", "x" * 64)))


def said(check, value):
    errors = FieldErrors()
    check(errors, SPEC.child("selector"), value)
    return [str(error) for error in errors]


def test_selector_errors_have_field_paths():
    expressions = [
        {"key": "a b", "operator": "Exists"},
        {"key": "a", "operator": "Exist"},
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Exists", "values": ["x"]},
        {"key": "a", "operator": "In", "values": ["x", "!"]},
    ]
    assert said(check_selector, {"matchLabels": {"a": "b c"}, "matchExpressions": expressions}) == [
        'spec.selector.matchLabels[a]: Invalid value: "b c": is not the value of a label',
        'spec.selector.matchExpressions[0].key: Invalid value: "a b": is not the key of a label',
        "spec.selector.matchExpressions[1].operator: Unsupported value: \"Exist\": must be one of 'In', 'NotIn', 'Exists', "
        "'DoesNotExist' (did you mean 'Exists'?)",
        "spec.selector.matchExpressions[2].values: Required value: must be set, because operator is In",
        "spec.selector.matchExpressions[3].values: Forbidden: must not be set, because operator is Exists",
        'spec.selector.matchExpressions[4].values[1]: Invalid value: "!": is not the value of a label',
    ]


def test_invalid_label_key_is_reported():
    assert said(check_labels, {"a b": "c"}) == [
        'spec.selector: Invalid value: "a b": is not the key of a label'
    ]
