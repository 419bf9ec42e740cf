"""When pods count as rolled out, and which changes are told."""

import pytest

from quintet.apis.meta import Condition
from quintet.controllers.eventingbackend.decide import status
from quintet.controllers.eventingbackend.decide.status import WorkloadCondition, WorkloadState, WorkloadStatus
from unit.eventingbackend.samples import a_backend


def a_rollout(*, generation=2, wanted=2, observed=2, replicas=2, updated=2, available=2, conditions=()):
    return WorkloadState(
        generation=generation,
        replicas=wanted,
        status=WorkloadStatus(
            observed_generation=observed,
            replicas=replicas,
            updated_replicas=updated,
            ready_replicas=available,
            available_replicas=available,
            conditions=conditions,
        ),
    )


def test_workload_with_all_pods_updated_and_available_is_complete():
    assert status.part_condition(a_rollout()).status == "True"


@pytest.mark.parametrize(
    "odd",
    [
        {"observed": 1},
        {"updated": 1},
        {"available": 1},
        {"replicas": 3},
        {"generation": 0, "observed": 0, "wanted": 0, "replicas": 0, "updated": 0, "available": 0},
    ],
    ids=["not seen yet", "an old pod serves", "one is not available", "an old one is left", "never seen"],
)
def test_workload_with_fewer_pods_is_not_complete(odd):
    assert status.part_condition(a_rollout(**odd)).status == "False"


def test_workload_scaled_to_zero_is_not_ready():
    nothing = a_rollout(wanted=0, replicas=0, updated=0, available=0)
    assert status.part_condition(nothing).status == "False"


def test_missing_workload_reports_what_it_waits_for():
    assert "waits for the backend" in status.part_condition(None).message


def test_workload_reports_why_pods_are_missing():
    refused = WorkloadCondition("ReplicaFailure", "True", "exceeded quota")
    found = status.part_condition(a_rollout(available=0, updated=0, conditions=(refused,)))
    assert found.message == "0 of 2 pods are ready with the current settings; exceeded quota"


def conditions(**states: tuple[str, str]):
    names = {"backend": "Backend Ready", "publisher": "Publisher Proxy Ready"}
    return tuple(Condition(names[key], state, reason, "m") for key, (state, reason) in states.items())


def test_changed_status_or_reason_gives_an_event_and_changed_message_does_not():
    down, refused, up = ("False", "Server not reached"), ("False", "Login refused"), ("True", "Backend ready")
    assert [each.reason for each in status.news(conditions(backend=down), conditions(backend=refused))] == [
        "LoginRefused"
    ]
    (good,) = status.news(conditions(backend=down), conditions(backend=up))
    assert (good.good, good.reason, good.note) == (True, "BackendReady", "Backend Ready: m")
    assert list(status.news(conditions(backend=up), conditions(backend=up))) == []


def test_missing_pods_of_a_new_backend_give_no_event():
    first = conditions(backend=("False", "x"), publisher=("False", "y"))
    assert [each.note for each in status.news((), first)] == ["Backend Ready: m"]


def test_waiting_deletion_names_the_subscriptions():
    names = [f"s{number:02}" for number in range(12)]
    said = status.in_use_by(a_backend(), names).conditions[-1]
    assert (said.type, said.status, said.reason) == ("Ready", "False", "DeletionWaits")
    assert "s00, s01" in said.message
    assert "s09 and 2 more" in said.message
