"""What is said about a JsonServer for each state of its children."""

from datetime import UTC, datetime, timedelta

import pytest

from quintet.apis.jsonserver import JsonServer, JsonServerSpec, JsonServerStatus
from quintet.apis.meta import Condition, ObjectMeta
from quintet.clock import timestamp
from quintet.controllers.decide.causes import Cause, CauseReason
from quintet.controllers.jsonserver.decide.desired import config_hash
from quintet.controllers.jsonserver.decide.status import (
    DeploymentState,
    Reason,
    ReplicaCounts,
    SyncProblem,
    Verification,
    needs_verification,
    status_of,
    verification_delay,
)

NOWHERE = DeploymentState()
DONE = DeploymentState(2, ReplicaCounts(2, 3, 3, 3, 3))
HALF = DeploymentState(2, ReplicaCounts(2, 4, 2, 3, 3))
OUTDATED = DeploymentState(3, ReplicaCounts(2, 3, 3, 3, 3))
NONE_UP = DeploymentState(2, ReplicaCounts(2, 3, 3, 0, 0))


def a_server(replicas: int = 3, status: JsonServerStatus | None = None) -> JsonServer:
    metadata = ObjectMeta(name="app-x", namespace="ns", generation=5)
    spec = JsonServerSpec(json_config="{}", replicas=replicas)
    return JsonServer(metadata=metadata, spec=spec, status=status or JsonServerStatus())


def said(rollout, problem=None, verification=None, doubts=(), replicas=3, causes=()):
    status = status_of(a_server(replicas), problem, rollout, verification, list(doubts), causes)
    return status, {condition.type: condition for condition in status.conditions}


def test_synced_server_has_the_designed_message():
    status, _ = said(DONE)
    assert (status.state, status.message) == ("Synced", "Synced successfully!")
    assert status.observed_generation == 5
    assert status.url == "http://app-x.ns.svc:3000"
    assert status.selector == "app=app-x"
    assert (status.replicas, status.ready_replicas) == (3, 3)
    assert status.config_hash == config_hash("{}")


def test_problem_sets_error_and_keeps_the_config_hash():
    status, conditions = said(NOWHERE, SyncProblem(Reason.INVALID_CONFIG, "what", "where"))
    assert (status.state, status.message) == ("Error", "Error: what")
    assert status.config_hash == ""
    assert conditions["Synced"].status == "False"
    assert conditions["Synced"].message == "what: where"
    assert conditions["Ready"].status == "False"


@pytest.mark.parametrize(
    ("rollout", "replicas", "want"),
    [
        pytest.param(DONE, 3, ("True", "AllReplicasAvailable", "3 of 3 replicas serve the data"), id="all there"),
        pytest.param(HALF, 3, ("False", "RollingOut", "2 of 3 replicas serve the data"), id="old ones left"),
        pytest.param(OUTDATED, 3, ("False", "RollingOut", "3 of 3 replicas serve the data"), id="not seen yet"),
        pytest.param(NOWHERE, 3, ("False", "RollingOut", "0 of 3 replicas serve the data"), id="none yet"),
        pytest.param(
            DeploymentState(1, ReplicaCounts(1)), 0,
            ("True", "ScaledToZero", "scaled to zero: there are no replicas"), id="none wanted",
        ),
    ],
)  # fmt: skip
def test_ready_requires_all_replicas_updated_and_available(rollout, replicas, want):
    ready = said(rollout, replicas=replicas)[1]["Ready"]
    assert (ready.status, ready.reason, ready.message) == want


CRASH = Cause(CauseReason.CRASH, "container json-server ends again and again: exit code 1 (Error)")
NO_IMAGE = Cause(CauseReason.IMAGE, "container json-server: ErrImagePull: not found")


def test_crash_loop_reports_the_validation_warning():
    ready = said(NONE_UP, doubts=["version: json-server serves only …"], causes=[CRASH])[1]["Ready"]
    assert ready.reason == "DataNotServable"
    assert "version: json-server serves only …" in ready.message
    assert "exit code 1" in ready.message


def test_pods_that_only_start_do_not_blame_the_data():
    assert said(NONE_UP, doubts=["version: …"])[1]["Ready"].reason == "RollingOut"


def test_missing_image_is_reported_and_not_the_validation_warning():
    ready = said(NONE_UP, doubts=["version: …"], causes=[NO_IMAGE])[1]["Ready"]
    want = "0 of 3 replicas serve the data; container json-server: ErrImagePull: not found"
    assert (ready.reason, ready.message) == ("ImagePullFailed", want)


@pytest.mark.parametrize("reason", CauseReason)
def test_every_cause_is_the_reason_of_ready(reason):
    ready = said(HALF, causes=[Cause(reason, "why")])[1]["Ready"]
    assert (ready.status, ready.reason) == ("False", reason)
    assert ready.message == "2 of 3 replicas serve the data; why"


def test_cause_of_deployment_is_reported_if_pods_have_none():
    refused = DeploymentState(2, ReplicaCounts(2), Cause(CauseReason.NO_POD, "exceeded quota"))
    assert said(refused)[1]["Ready"].reason == "PodNotCreated"
    assert said(refused, causes=[NO_IMAGE])[1]["Ready"].reason == "ImagePullFailed"


def test_complete_rollout_is_ready_whatever_old_causes_say():
    assert said(DONE, causes=[NO_IMAGE])[1]["Ready"].status == "True"


def test_reported_cause_stays_while_it_holds():
    others = [Cause(CauseReason.IMAGE, "a"), Cause(CauseReason.UNSCHEDULABLE, "b")]
    known = Condition("Ready", "False", "Unschedulable", "0 of 3 replicas serve the data; b")
    server = a_server(status=JsonServerStatus(conditions=(known,)))
    ready = status_of(server, None, NONE_UP, None, [], others).conditions[1]
    assert (ready.reason, ready.message) == (known.reason, known.message)


def test_replicas_are_reported_whatever_the_problem():
    status, _ = said(DONE, SyncProblem(Reason.FOREIGN_OBJECT, "what"))
    assert (status.replicas, status.ready_replicas) == (3, 3)


@pytest.mark.parametrize("length", [4000, 4090, 5000, 100_000])
def test_messages_fit_their_schema(length):
    status, conditions = said(NOWHERE, SyncProblem(Reason.APPLY_FAILED, "x" * length, "y" * length))
    assert len(status.message) <= 4096
    assert all(len(condition.message) <= 4096 for condition in conditions.values())


@pytest.mark.parametrize(
    ("reason", "want"),
    [(Reason.DATA_EQUAL, "True"), (Reason.DATA_DIFFERS, "False"), (Reason.UNREACHABLE, "Unknown")],
)
def test_verified_condition_reports_the_verification(reason, want):
    assert said(DONE, verification=Verification(reason, "m"))[1]["Verified"].status == want


def test_verified_is_unknown_until_ready():
    assert said(HALF)[1]["Verified"].status == "Unknown"


def _verified(generation: int, status: str = "True") -> JsonServerStatus:
    condition = Condition("Verified", status, "DataEqual", observed_generation=generation)
    return JsonServerStatus(config_hash=config_hash("{}"), conditions=(condition,))


@pytest.mark.parametrize(
    ("server", "problem", "rollout", "want"),
    [
        pytest.param(a_server(), None, DONE, True, id="never looked at"),
        pytest.param(a_server(status=_verified(5)), None, DONE, False, id="looked at already"),
        pytest.param(a_server(status=_verified(4)), None, DONE, True, id="changed since"),
        pytest.param(a_server(status=_verified(5, "Unknown")), None, DONE, True, id="could not be reached"),
        pytest.param(a_server(status=_verified(5, "False")), None, DONE, True, id="was not the same"),
        pytest.param(a_server(), None, HALF, False, id="not rolled out"),
        pytest.param(a_server(0), None, DeploymentState(1, ReplicaCounts(1)), False, id="no pods"),
        pytest.param(a_server(), SyncProblem(Reason.APPLY_FAILED, "x"), DONE, False, id="not synced"),
    ],
)
def test_data_is_verified_once_after_each_rollout(server, problem, rollout, want):
    assert needs_verification(server, problem, rollout) is want


@pytest.mark.parametrize(
    ("ready", "since", "want"),
    [
        pytest.param("False", 500, 1.0, id="ready only now"),
        pytest.param("True", 0, 1.0, id="ready a moment ago"),
        pytest.param("True", 8, 8.0, id="ready for a while"),
        pytest.param("True", 500, 60.0, id="ready for long"),
    ],
)
def test_verification_delay_grows_after_a_rollout(ready, since, want):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    condition = Condition("Ready", ready, "r", last_transition_time=timestamp(now - timedelta(seconds=since)))
    assert verification_delay(a_server(status=JsonServerStatus(conditions=(condition,))), now) == want
