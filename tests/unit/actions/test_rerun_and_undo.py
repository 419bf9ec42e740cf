"""The decisions of `rerun` and `undo`."""

import pytest

from quintet.actions.rerun import find_obstacle, read_result
from quintet.actions.undo import is_undone
from quintet.apis.casconfig import CASConfig, CASConfigSpec, CASConfigStatus, Mode
from quintet.apis.casconfig.types import Reach
from quintet.apis.checkup import Checkup, CheckupSpec, CheckupStatus, Verdict
from quintet.apis.meta import ObjectMeta

ASKED = "2030-01-01T00:00:00.000001Z"


def a_checkup(**status) -> Checkup:
    spec = CheckupSpec(image="i", service_account_name="s", timeout_seconds=1)
    return Checkup(metadata=ObjectMeta(name="hello"), spec=spec, status=CheckupStatus(**status))


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({}, None),
        ({"verdict": Verdict.PASSED, "observed_rerun": "before", "start_time": "x", "run": 1}, None),
        ({"observed_rerun": ASKED, "start_time": "x", "run": 2}, None),
        ({"verdict": Verdict.PASSED, "observed_rerun": ASKED, "start_time": "x", "run": 2}, True),
        ({"verdict": Verdict.TIMED_OUT, "observed_rerun": ASKED, "start_time": "x", "run": 2}, False),
        ({"verdict": Verdict.INVALID}, False),
    ],
    ids=["not begun", "the run before", "still running", "passed", "timed out", "a spec that is never run"],
)
def test_read_result_waits_for_the_requested_run(status, want):
    found = read_result(a_checkup(**status), ASKED)
    assert (found[0] if found else None) is want


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        (ObjectMeta(), None),
        (ObjectMeta(annotations={"quintet.dev/suspended": "true"}), "is suspended"),
        (ObjectMeta(annotations={"kiagnose.io/cancel": "True"}), "is cancelled"),
        (ObjectMeta(deletion_timestamp="x"), "is being deleted"),
    ],
)
def test_find_obstacle_names_reason_and_next_step(metadata, want):
    found = find_obstacle(metadata)
    assert (found is None) if want is None else found[0].startswith(want)


def a_config(mode: Mode = Mode.PREVIEW, generation: int = 2, **status) -> CASConfig:
    said = CASConfigStatus(**{"observed_generation": 2, **status})
    return CASConfig(
        metadata=ObjectMeta(generation=generation), spec=CASConfigSpec(policies=(), mode=mode), status=said
    )


def test_casconfig_is_undone_when_observed_and_no_changes_remain():
    assert is_undone(a_config()) is True


@pytest.mark.parametrize(
    "config",
    [
        a_config(Mode.APPLY),
        a_config(generation=3),
        a_config(reach=(Reach("apps/v1/Deployment", ("shop",)),)),
        a_config(unfinished=True),
    ],
    ids=["it still applies", "the change was not seen", "it has been somewhere", "a batch has not ended"],
)
def test_casconfig_is_not_undone_while(config):
    assert is_undone(config) is None
