"""What a ConfigMap says about a checkup."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.apis.checkup.results import Flaw, Results, parse
from quintet.apis.checkup.types import MAX_RESULT_BYTES

GOOD = {"status.succeeded": "true"}


def test_complete_results_are_parsed():
    data = {
        **GOOD,
        "status.failureReason": "",
        "status.result.echo": "Hi!",
        "spec.timeout": "60s",
        "other": "x",
    }
    assert parse(data) == Results(True, "", {"echo": "Hi!"})


def test_results_text_matches_the_design():
    assert json.loads(parse({**GOOD, "status.result.echo": "Hi!"}).text) == {"echo": "Hi!"}
    assert parse(GOOD).text == ""


@pytest.mark.parametrize(
    ("data", "flaw", "problem"),
    [
        pytest.param(None, Flaw.NO_DATA, "results: ConfigMap Data is nil", id="no data"),
        pytest.param({}, Flaw.NO_DATA, "results: ConfigMap Data is nil", id="empty data"),
        pytest.param({"a": "b"}, Flaw.NO_SUCCEEDED, "results: succeeded field is missing", id="no word"),
        pytest.param(
            {"status.succeeded": ""},
            Flaw.ILLEGAL_SUCCEEDED,
            "results: succeeded field is illegal",
            id="empty",
        ),
        pytest.param(
            {"status.succeeded": "True"}, Flaw.ILLEGAL_SUCCEEDED, "'True' is neither", id="a capital letter"
        ),
        pytest.param(
            {"status.succeeded": "false"},
            Flaw.NO_FAILURE_REASON,
            "results: failureReason field is missing",
            id="no why",
        ),
    ],
)
def test_missing_or_invalid_results_have_their_own_message(data, flaw, problem):
    found = parse(data)
    assert found.flaw is flaw
    assert problem in found.problem


def test_empty_failure_reason_is_accepted():
    assert parse({"status.succeeded": "false", "status.failureReason": ""}).flaw is None


def test_results_of_a_failure_are_kept():
    data = {"status.succeeded": "false", "status.failureReason": "check: slow", "status.result.ms": "90"}
    assert parse(data) == Results(False, "check: slow", {"ms": "90"})


def test_binary_data_is_refused_by_name():
    found = parse(GOOD, {"b": "AA==", "a": "AA=="})
    assert (found.flaw, found.succeeded) == (Flaw.BINARY, None)
    assert "binaryData (a, b)" in found.problem


FRAME = len(json.dumps(json.dumps({"x": ""})))


@pytest.mark.parametrize(("extra", "fits"), [(-1, True), (0, True), (1, False)])
def test_size_limit_is_exact(extra, fits):
    found = parse({**GOOD, "status.result.x": "y" * (MAX_RESULT_BYTES - FRAME + extra)})
    assert (found.flaw is None) == fits
    assert bool(found.values) == fits, "all or nothing"
    assert found.succeeded is True, "what the checkup said of itself is known all the same"


@pytest.mark.parametrize(
    "text",
    ['"' * (MAX_RESULT_BYTES // 2), "ü" * (MAX_RESULT_BYTES // 2), "\n" * MAX_RESULT_BYTES, "<" * 50_000],
)
def test_size_is_measured_as_stored(text):
    assert parse({**GOOD, "status.result.x": text}).flaw is Flaw.TOO_LARGE


def test_too_many_results_exceed_the_limit():
    assert parse({**GOOD, **{f"status.result.{n}": "" for n in range(4097)}}).flaw is Flaw.TOO_LARGE


def test_long_failure_reason_is_cut():
    assert (
        len(parse({"status.succeeded": "false", "status.failureReason": "x" * 1_000_000}).failure_reason)
        <= 4096
    )


@given(st.dictionaries(st.text(), st.text()), st.dictionaries(st.text(), st.text()) | st.none())
def test_results_of_any_shape_are_parsed(data, binary):
    found = parse(data, binary)
    assert (found.flaw is None) == (found.problem == "")
    assert found.flaw is not None or found.succeeded is not None
