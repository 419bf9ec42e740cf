"""The order of resourceVersions, also of those that are no numbers."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from quintet.kube.versions import Versions

OPAQUE = ["v1-17", "", "0x1f", "\uff11\uff17", "-3", "9" * 5000]


@pytest.mark.parametrize("text", OPAQUE, ids=["letters", "empty", "hex", "wide digits", "negative", "huge"])
def test_opaque_version_is_ordered_by_arrival_and_comparable_to_none(text):
    versions = Versions()
    first = versions.number("a")
    assert versions.number(text) > first
    assert versions.comparable(text) is None
    assert versions.comparable("7") is None


@given(st.lists(st.one_of(st.integers(0, 99).map(str), st.sampled_from(OPAQUE)), min_size=1))
def test_versions_from_the_first_opaque_one_on_grow_with_every_arrival(texts):
    versions, last = Versions(), -1
    for index, text in enumerate(texts):
        number = versions.number(text)
        if any(each in OPAQUE for each in texts[: index + 1]):
            assert number > last
            assert versions.text(number) == text
        else:
            assert (number, versions.text(number)) == (int(text), text)
        last = max(last, number)


def test_version_before_the_latest_opaque_one_has_no_text():
    versions = Versions()
    first = versions.number("a")
    versions.number("b")
    assert versions.text(first) == ""
