"""Which errors of children are reported at once, and which only if they last."""

import pytest

from quintet.apis.meta import ObjectKey, Resource
from quintet.controllers.child_results import is_transient
from quintet.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ServerFault,
    Status,
    TooManyRequests,
    Unreachable,
)
from quintet.runtime.apply import Contested, ForeignObject

THERE = (Resource("", "v1", "Service", "services"), ObjectKey("ns", "a"))


def answered(kind: type[ApiError]) -> ApiError:
    return kind("PATCH /x", Status(message="no"))


@pytest.mark.parametrize("kind", [Conflict, NotFound, TooManyRequests, ServerFault])
def test_temporary_child_error_is_reported_only_when_it_lasts(kind):
    assert is_transient(answered(kind), 0)
    assert is_transient(Unreachable("reset"), 0)
    assert not is_transient(answered(kind), 1000)


@pytest.mark.parametrize(
    "error",
    [answered(Invalid), answered(Forbidden), ForeignObject(*THERE), Contested(*THERE, 1.0)],
    ids=lambda error: type(error).__name__,
)
def test_child_error_that_user_must_fix_is_reported_at_once(error):
    assert not is_transient(error, 0)
