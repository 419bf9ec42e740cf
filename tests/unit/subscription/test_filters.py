"""Filters of events: what they select, and how errors in them are reported."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.apis.fields import SPEC, FieldErrors
from quintet.apis.subscription.filters import DEEPEST, LONGEST_VALUE, MOST_FILTERS, check_filters, matches
from quintet.eventing.dispatcher.decide.outgoing_event import OutgoingEvent

EVENT = {"type": "order.created.v1", "source": "shop", "subject": "order/7", "priority": "high"}


@pytest.mark.parametrize(
    ("filters", "want"),
    [
        ([], True),
        ([{"exact": {"type": "order.created.v1"}}], True),
        ([{"exact": {"type": "order.created.v1", "priority": "low"}}], False),
        ([{"exact": {"priority": "hig"}}], False),
        ([{"exact": {"missing": "x"}}], False),
        ([{"prefix": {"type": "order."}}], True),
        ([{"prefix": {"type": "order.", "subject": "invoice/"}}], False),
        ([{"prefix": {"missing": "x"}}], False),
        ([{"suffix": {"type": ".v1"}}], True),
        ([{"suffix": {"type": ".v2"}}], False),
        ([{"all": [{"exact": {"source": "shop"}}, {"suffix": {"type": ".v1"}}]}], True),
        ([{"all": [{"exact": {"source": "shop"}}, {"suffix": {"type": ".v2"}}]}], False),
        ([{"any": [{"exact": {"source": "other"}}, {"suffix": {"type": ".v1"}}]}], True),
        ([{"any": [{"exact": {"source": "other"}}, {"suffix": {"type": ".v2"}}]}], False),
        ([{"not": {"exact": {"source": "shop"}}}], False),
        ([{"not": {"exact": {"missing": "x"}}}], True),
        ([{"prefix": {"type": "order."}}, {"exact": {"source": "other"}}], False),
    ],
    ids=str,
)
def test_event_fits_all_filters(filters: list[Any], want: bool):
    assert errors_of(filters) == []
    assert matches(filters, EVENT) is want


def errors_of(filters: Any) -> list[str]:
    errors = FieldErrors()
    check_filters(errors, SPEC.child("filters"), filters)
    return [str(each) for each in errors]


def nested(depth: int) -> dict[str, Any]:
    return {"exact": {"type": "a"}} if depth == 1 else {"not": nested(depth - 1)}


@pytest.mark.parametrize(
    ("filters", "want"),
    [
        ("x", "spec.filters: Invalid type: \"x\": must be of type list"),
        (["x"], "spec.filters[0]: Invalid type: \"x\": must be of type object"),
        ([{}], "spec.filters[0]: Invalid value: []: must have exactly one of exact, prefix, suffix, all, any, not"),
        ([{"exact": {"a": "b"}, "prefix": {"a": "b"}}], "must have exactly one of"),
        ([{"exakt": {"a": "b"}}], "spec.filters[0]: Unsupported value: \"exakt\""),
        ([{"exact": {}}], "spec.filters[0].exact: Invalid value: {}: must not be empty"),
        ([{"exact": {"type": ""}}], "spec.filters[0].exact[type]: Invalid value: \"\": must not be empty"),
        ([{"exact": {"type": 1}}], "spec.filters[0].exact[type]: Invalid type: 1: must be of type string"),
        ([{"exact": {"Type": "a"}}], "spec.filters[0].exact[Type]: Invalid value: \"Type\": must be the name of a CloudEvents attribute"),
        ([{"exact": {"data": "a"}}], "must be the name of a CloudEvents attribute"),
        ([{"exact": {"type": "x" * (LONGEST_VALUE + 1)}}], "spec.filters[0].exact[type]: Too long"),
        ([{"any": []}], "spec.filters[0].any: Invalid value: []: must not be empty"),
        ([{"any": {"exact": {"a": "b"}}}], "spec.filters[0].any: Invalid type"),
        ([nested(1), {"any": [nested(1), {"all": [{"suffix": {"type": ""}}]}]}], "spec.filters[1].any[1].all[0].suffix[type]"),
        ([nested(DEEPEST + 1)], "must not be nested more than 5 deep"),
        ([nested(1)] * (MOST_FILTERS + 1), "spec.filters: Too many"),
        ([{"all": [nested(1)] * MOST_FILTERS}], "spec.filters: Too many"),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_wrong_filter_is_reported_with_its_position(filters: Any, want: str):
    (error,) = errors_of(filters)
    assert want in error


def test_filters_up_to_the_limits_are_valid():
    assert errors_of([nested(DEEPEST)]) == []
    assert errors_of([nested(1)] * MOST_FILTERS) == []


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["exact", "prefix", "suffix", "all", "any", "not", "type"]), inner, max_size=2
        )
    ),
    max_leaves=12,
)


@given(st.lists(ANYTHING, max_size=3))
def test_any_value_is_refused_or_can_be_evaluated(filters: list[Any]):
    if not errors_of(filters):
        assert matches(filters, EVENT) in (True, False)


def test_filters_see_decoded_attributes_of_an_event():
    event = OutgoingEvent({"ce-id": "1", "ce-subject": "caf%C3%A9 1", "content-type": "text/plain"}, b"")
    assert event.attributes == {"id": "1", "subject": "café 1", "datacontenttype": "text/plain"}
