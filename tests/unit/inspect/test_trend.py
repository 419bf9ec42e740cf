"""The runs of a Checkup as a table and as lines."""

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.apis.checkup import Checkup, CheckupSpec, CheckupStatus, Run, Verdict
from quintet.apis.checkup.types import Phase
from quintet.apis.meta import ObjectMeta
from quintet.inspect.trend import (
    ASCII_BLOCKS,
    BLOCKS,
    as_number,
    sparkline,
    sparkline_rows,
    trend_document,
    trend_of,
    trend_rows,
)

NOW = datetime(2026, 1, 1, 1, 0, tzinfo=UTC)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def a_run(number: int, verdict: Verdict, **results: str) -> Run:
    start, end = f"2026-01-01T00:{number:02}:00Z", f"2026-01-01T00:{number:02}:05Z"
    return Run(run=number, verdict=verdict, start_time=start, completion_time=end, results=results)


def a_checkup(*history: Run, **status) -> Checkup:
    spec = CheckupSpec(image="i", service_account_name="s", timeout_seconds=60)
    return Checkup(metadata=ObjectMeta(name="x"), spec=spec, status=CheckupStatus(history=history, **status))


HISTORY = (a_run(2, Verdict.FAILED, p99="38"), a_run(1, Verdict.PASSED, p99="4.1", zone="a"))
LAST = {
    "run": 3,
    "verdict": Verdict.PASSED,
    "start_time": "2026-01-01T00:03:00Z",
    "completion_time": "2026-01-01T00:03:09Z",
    "result_map": {"p99": "4.4", "lost": "0"},
}


def test_runs_are_in_order_with_their_numbers():
    found = trend_of(a_checkup(*HISTORY, **LAST))
    assert [(run.run, run.verdict) for run in found.runs] == [(1, "Passed"), (2, "Failed"), (3, "Passed")]
    assert found.names == ("seconds", "lost", "p99")
    assert found.series("p99") == [4.1, 38.0, 4.4]
    assert found.series("lost") == [None, None, 0.0]
    assert found.series("seconds") == [5.0, 5.0, 9.0]
    assert trend_document(found)["series"]["seconds"] == [5.0, 5.0, 9.0]


def test_table_has_a_column_per_number():
    found = trend_of(a_checkup(*HISTORY, **LAST), ("p99",))
    assert trend_rows(found, NOW) == [
        ["RUN", "AGE", "VERDICT", "P99"],
        ["1", "59m", "Passed", "4.1"],
        ["2", "58m", "Failed", "38"],
        ["3", "57m", "Passed", "4.4"],
    ]
    assert sparkline_rows(found)[1] == ["p99", "▁█▁", "4.1", "38", "4.4"]


def test_run_that_goes_on_is_no_part_of_the_trend():
    found = trend_of(a_checkup(*HISTORY, run=3, start_time="2026-01-01T00:03:00Z", phase=Phase.RUNNING))
    assert [run.run for run in found.runs] == [1, 2]


def test_checkup_that_never_ran_has_no_runs():
    for status in ({}, {"verdict": Verdict.INVALID}):
        found = trend_of(a_checkup(**status))
        assert (list(found.runs), sparkline_rows(found)[1:]) == ([], [["seconds", "", "-", "-", "-"]])


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1", 1.0),
        ("-2.5e3", -2500.0),
        ("nan", None),
        ("inf", None),
        ("1_0", None),
        ("4 ms", None),
        ("", None),
    ],
)
def test_only_plain_finite_numbers_are_numbers(text, want):
    assert as_number(text) == want


@given(st.lists(st.none() | NUMBERS, max_size=30), st.sampled_from([BLOCKS, ASCII_BLOCKS]))
def test_sparkline_keeps_order_and_gaps(series, blocks):
    line = sparkline(series, blocks)
    assert len(line) == len(series)
    pairs = [
        (value, blocks.index(block)) for value, block in zip(series, line, strict=True) if value is not None
    ]
    assert all((value is None) == (block == " ") for value, block in zip(series, line, strict=True))
    for value, height in pairs:
        for other, higher in pairs:
            assert value > other or height <= higher
    values = {value for value, _ in pairs}
    if values and not math.isclose(min(values), max(values)):
        assert {height for _, height in pairs} >= {0, len(blocks) - 1}
