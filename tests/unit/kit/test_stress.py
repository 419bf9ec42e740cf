"""Repetition of tests, and selection of the tests of one kind."""

from pathlib import Path

import pytest

from kit.plugins.kind_selection import WORDS, belongs_to
from kit.plugins.stress import _split
from quintet.components import COMPONENTS


@pytest.mark.parametrize(
    ("nodeid", "want"),
    [
        ("a.py::test_x[round3]", ("a.py::test_x", "round3")),
        ("a.py::test_x[one-two-round12]", ("a.py::test_x[one-two]", "round12")),
        ("a.py::test_x[round1-one]", ("a.py::test_x[one]", "round1")),
        ("a.py::test_x[one]", ("a.py::test_x[one]", "round1")),
        ("a.py::test_x", ("a.py::test_x", "round1")),
    ],
)
def test_round_is_split_from_other_parameters(nodeid, want):
    assert _split(nodeid) == want


@pytest.mark.parametrize("kind", WORDS)
def test_every_kind_has_tests_at_every_level(kind):
    tests = Path(__file__).parents[2]
    for level in ("unit", "integration", "e2e"):
        found = [
            path for path in (tests / level).rglob("test_*.py") if belongs_to(kind, path.relative_to(tests))
        ]
        assert found, f"{kind} has no tests in {level}"


def test_tests_of_every_component_can_be_selected():
    missing = [
        name
        for name in COMPONENTS
        if not any(word in name or name in word for of in WORDS.values() for word in of)
    ]
    assert missing == []
