"""What is said about a Checkup on its way."""

import msgspec
import pytest

from quintet.apis.checkup import CheckupStatus, Run, Verdict
from quintet.apis.checkup.contract import object_name
from quintet.apis.checkup.results import Results
from quintet.apis.meta import find_condition
from quintet.controllers.checkup.decide import scheduling
from quintet.controllers.checkup.decide import status as said
from quintet.controllers.checkup.decide.observed import Obstacle, ObstacleReason
from quintet.controllers.checkup.decide.verdict import Ending, Reason, invalid_ending
from unit.checkup.observations import START, a_checkup

END = "2026-01-01T10:00:12Z"
NOTHING_DUE = scheduling.RunPlan(CheckupStatus())
PASSED = Ending(Verdict.PASSED, Reason.SUCCEEDED, "The checkup finished successfully")


def over(ending: Ending = PASSED, **changes) -> CheckupStatus:
    status = said.final_status(
        a_checkup(),
        said.started_status(a_checkup(), NOTHING_DUE, START),
        ending,
        Results(True, "", {"a": "b"}),
        None,
        END,
    )
    return msgspec.structs.replace(status, **changes)


def test_started_run_has_names_from_uid_and_number():
    first = said.started_status(a_checkup(), NOTHING_DUE, START)
    assert (first.run, first.start_time, first.phase) == (1, START, "Pending")
    assert first.config_map == object_name("echo", "u-1", 1)
    assert first.config_map.startswith("echo-")
    assert object_name("echo", "u-1", 1) != object_name("echo", "u-1", 2) != object_name("echo", "u-2", 2)


def test_object_names_are_valid_everywhere():
    name = object_name("a." * 126 + "z", "u", 999)
    assert len(name) <= 57, "the Job's name becomes a label, and the start of the pod's name"
    assert "." not in name


def test_final_status_of_a_passed_run_matches_the_design():
    status = over()
    assert (status.verdict, status.duration, status.completion_time) == ("Passed", "12s", END)
    assert (status.results, status.result_map) == ('{"a": "b"}', {"a": "b"})
    succeeded = find_condition(status.conditions, "Succeeded")
    assert (succeeded.status, succeeded.message) == ("True", "The checkup finished successfully")
    assert [c.status for c in status.conditions] == ["True", "False", "False"]


@pytest.mark.parametrize("verdict", sorted(set(Verdict) - {Verdict.PASSED, Verdict.FLAKY}))
def test_every_verdict_but_passed_and_flaky_sets_failed(verdict):
    status = over(Ending(verdict, "Why", "because"))
    assert find_condition(status.conditions, "Failed").status == "True"
    assert find_condition(status.conditions, "Succeeded").status == "False"


def test_running_status_has_unknown_verdict_conditions():
    status = said.running_status(
        a_checkup(), said.started_status(a_checkup(), NOTHING_DUE, START), Results(None, "", {"step": "1"})
    )
    assert (status.verdict, status.result_map) == (None, {"step": "1"})
    assert find_condition(status.conditions, "Succeeded").status == "Unknown"
    assert find_condition(status.conditions, "Running").status == "True"


def test_waiting_status_reports_the_obstacle():
    begun = said.started_status(a_checkup(), NOTHING_DUE, START)
    status = said.waiting_status(
        a_checkup(), begun, Obstacle(ObstacleReason.IMAGE, "ErrImagePull: no such image")
    )
    running = find_condition(status.conditions, "Running")
    assert (running.status, running.reason, running.message) == (
        "False",
        "ImagePullFailed",
        "ErrImagePull: no such image",
    )
    assert status.phase == "Pending"
    assert said.waiting_status(a_checkup(), said.with_job(begun, "j", "u"), None).phase == "Starting"


def test_verdict_is_final():
    assert said.is_over(a_checkup(over()))
    assert not said.is_over(a_checkup())


def test_invalid_spec_that_never_ran_can_be_corrected():
    status = over(invalid_ending("no"), start_time=None, observed_generation=3)
    assert said.is_over(a_checkup(status))
    assert not said.is_over(a_checkup(msgspec.structs.replace(status, observed_generation=2)))


@pytest.mark.parametrize(
    ("annotations", "seen", "want"),
    [
        ({}, "", False),
        ({"kiagnose.io/rerun": "1"}, "", True),
        ({"kiagnose.io/rerun": "1"}, "1", False),
        ({"kiagnose.io/rerun": "2"}, "1", True),
        ({"kiagnose.io/rerun": "2", "kiagnose.io/cancel": "true"}, "1", False),
        ({"kiagnose.io/rerun": "2", "kiagnose.io/cancel": "no"}, "1", True),
        ({"kiagnose.io/rerun": "x" * 9000}, "x" * 4096, False),
    ],
)
def test_new_rerun_value_requests_another_run(annotations, seen, want):
    assert said.is_run_requested(a_checkup(over(observed_rerun=seen), annotations=annotations)) == want


def test_previous_run_moves_to_history_with_ten_entries():
    old = over(run=12, history=tuple(Run(n, Verdict.PASSED) for n in range(11, 1, -1)))
    status = said.started_status(
        a_checkup(old, annotations={"kiagnose.io/rerun": "x"}), scheduling.RunPlan(old), END
    )
    assert (status.run, status.observed_rerun) == (13, "x")
    assert [run.run for run in status.history] == [12, 11, 10, 9, 8, 7, 6, 5, 4, 3]
    assert (status.history[0].verdict, status.history[0].start_time) == ("Passed", START)
    assert (status.results, status.verdict, status.completion_time) == ("", None, None)


def test_long_messages_are_cut():
    status = over(Ending(Verdict.FAILED, "Why", "x" * 100_000))
    assert len(status.message) <= 32768
    assert all(len(condition.message) <= 32768 for condition in status.conditions)
