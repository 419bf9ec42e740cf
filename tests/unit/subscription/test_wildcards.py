"""Wildcards in types, compared with regular expressions."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.apis.subscription.wildcards import cover, fits, overlap, pattern_problem

SEGMENT = st.sampled_from("ab")
TEXT = st.lists(SEGMENT, min_size=1, max_size=4).map(".".join)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    segments = draw(st.lists(SEGMENT | st.just("*"), min_size=1, max_size=4))
    return ".".join([*segments[:-1], ">"] if draw(st.booleans()) else segments)


def expression(pattern: str) -> str:
    words = {"*": r"[^.]+", ">": r"[^.]+(\.[^.]+)*"}
    return r"\.".join(words.get(each, re.escape(each)) for each in pattern.split("."))


@given(patterns(), TEXT)
def test_pattern_fits_what_its_regular_expression_matches(pattern: str, text: str):
    assert fits(pattern, text) is (re.fullmatch(expression(pattern), text) is not None)


@given(patterns(), patterns(), TEXT)
def test_patterns_that_fit_a_common_text_overlap(one: str, other: str, text: str):
    if fits(one, text) and fits(other, text):
        assert overlap(one, other)


@given(patterns(), patterns())
def test_overlapping_patterns_fit_a_common_text(one: str, other: str):
    """Of up to five segments, because `a.>` and `*.*.*.*` need four."""
    if not overlap(one, other):
        return
    texts = [[]]
    for _ in range(5):
        texts = [[*start, each] for start in texts for each in "abc"]
    common = (".".join(text[:length]) for text in texts for length in range(1, 6))
    assert any(fits(one, text) and fits(other, text) for text in common)


@given(st.lists(patterns() | TEXT, max_size=6), TEXT)
def test_cover_fits_every_text_of_its_patterns_and_has_no_overlap(given_: list[str], text: str):
    covering = cover(given_)
    assert not [(a, b) for index, a in enumerate(covering) for b in covering[:index] if overlap(a, b)]
    if any(fits(each, text) for each in given_):
        assert any(fits(each, text) for each in covering)


def test_cover_keeps_patterns_without_overlap():
    kept = ("kyma.a.b", "kyma.a.*.c", "kyma.b.>")
    assert cover(kept) == kept


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("order.*.v1", ""),
        ("order.>", ""),
        ("*.>", ""),
        ("order.crea*", "must have * and > only as whole segments"),
        ("order.>>", "must have * and > only as whole segments"),
        ("order.>.v1", "must have > only as the last segment"),
    ],
)
def test_wrong_wildcards_are_explained(pattern: str, problem: str):
    assert pattern_problem(pattern) == problem
