"""Tests of the merge patch that replaces a status."""

import pytest

from quintet.runtime.status import merge_patch


def merged(target: object, patch: object) -> object:
    """Return the result of a merge patch as a server computes it (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, {"phase": "Ready"}),
        ({}, {}),
        ({"phase": "Ready", "message": "x"}, {"phase": "Ready"}),
        ({"results": {"a": "1", "b": "2"}}, {"results": {"a": "1"}}),
        ({"results": {"a": "1", "b": "2"}}, {"results": {}}),
        ({"results": {"a": "1"}}, {}),
        ({"backend": {"name": "x", "server": {"url": "u", "id": 1}}}, {"backend": {"server": {"id": 2}}}),
        ({"conditions": [{"type": "A", "reason": "x"}]}, {"conditions": [{"type": "A"}]}),
        ({"results": "none"}, {"results": {"a": "1"}}),
        ({"results": {"a": "1"}}, {"results": "none"}),
    ],
)
def test_merge_patch_turns_the_old_status_into_the_new_one(before, after):
    assert merged(before, merge_patch(before, after)) == after
