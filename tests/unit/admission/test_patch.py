"""A patch turns what was into what is wanted, and names nothing else."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.apis.jsonpatch import diff, same

keys = st.one_of(st.sampled_from(["", "a", "b", "a/b", "~", "~1", "0", "-"]), st.text(max_size=3))
scalars = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.floats(-2, 2), st.text(max_size=3))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=25,
)


def applied(document: Any, operations: list[dict[str, Any]]) -> Any:
    """RFC 6902, word by word, as an independent witness."""
    document = copy.deepcopy(document)
    for operation in operations:
        if operation["path"] == "":
            assert operation["op"] == "replace"
            document = operation["value"]
            continue
        assert operation["path"].startswith("/"), operation
        *parents, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"][1:].split("/")
        ]
        target = document
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        _carry_out(operation, target, int(last) if isinstance(target, list) else last)
    return document


def _carry_out(operation: dict[str, Any], target: Any, last: Any) -> None:
    match operation["op"]:
        case "add" if isinstance(target, list):
            assert 0 <= last <= len(target), operation
            target.insert(last, operation["value"])
        case "add":
            target[last] = operation["value"]
        case "remove":
            del target[last]
        case "replace":
            target[last]  # must be there
            target[last] = operation["value"]
        case other:
            raise AssertionError(other)


@given(values, values)
def test_applied_patch_gives_desired_value(before, after):
    untouched = copy.deepcopy(before)
    operations = diff(before, after)
    assert same(applied(before, json.loads(json.dumps(operations))), after), operations
    assert same(before, untouched)


@given(values)
def test_equal_values_give_empty_patch(value):
    assert diff(value, copy.deepcopy(value)) == []


@given(st.lists(values, max_size=6), values, st.data())
def test_one_list_item_more_or_less_is_one_operation(items, item, data):
    place = data.draw(st.integers(0, len(items)))
    longer = [*items[:place], item, *items[place:]]
    assert [operation["op"] for operation in diff(items, longer)] == ["add"]
    assert [operation["op"] for operation in diff(longer, items)] == ["remove"]


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(
            {"spec": {}}, {"spec": {"replicas": 1}},
            [{"op": "add", "path": "/spec/replicas", "value": 1}], id="a default is one addition",
        ),
        pytest.param(
            {"f": ["a", "b"]}, {"f": ["a", "b", "c"]},
            [{"op": "add", "path": "/f/2", "value": "c"}], id="a finalizer leaves those of others alone",
        ),
        pytest.param(
            {"a": [{"n": 1, "v": 1}, {"n": 2}]}, {"a": [{"n": 1, "v": 2}, {"n": 2}]},
            [{"op": "replace", "path": "/a/0/v", "value": 2}], id="a field deep inside an item",
        ),
        pytest.param(
            {"a/b": {"~": 1}}, {"a/b": {}},
            [{"op": "remove", "path": "/a~1b/~0"}], id="separators in keys are escaped",
        ),
        pytest.param(
            {"a": True}, {"a": 1}, [{"op": "replace", "path": "/a", "value": 1}], id="true is not 1"
        ),
    ],
)  # fmt: skip
def test_patches_are_minimal(before, after, want):
    assert diff(before, after) == want
