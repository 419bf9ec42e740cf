"""What came of a run, for every way in which it can end."""

import msgspec
import pytest

from quintet.apis.checkup.results import Results, parse
from quintet.controllers.checkup.decide import verdict
from quintet.controllers.checkup.decide.observed import Obstacle, ObstacleReason, obstacle
from quintet.controllers.decide.pods import ContainerStatus
from unit.checkup.observations import a_job, a_pod, running, terminated, waiting

GOOD = parse({"status.succeeded": "true"})
BAD = parse({"status.succeeded": "false", "status.failureReason": "check: slow"})
NONE = parse({"spec.timeout": "60s"})
COMPLETE, FAILED = a_job("Complete"), a_job("Failed", "BackoffLimitExceeded", "Job has reached the limit")
DISRUPTION = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}


@pytest.mark.parametrize(
    ("job", "pod", "results", "want"),
    [
        pytest.param(COMPLETE, terminated(0), GOOD, ("Passed", "CheckupSucceeded"), id="both say success"),
        pytest.param(COMPLETE, None, GOOD, ("Passed", "CheckupSucceeded"), id="the pod is not needed for that"),
        pytest.param(COMPLETE, terminated(0), BAD, ("Failed", "CheckupFailed"), id="it says failure and ends well"),
        pytest.param(COMPLETE, terminated(0), NONE, ("Failed", "SucceededMissing"), id="it says nothing and ends well"),
        pytest.param(FAILED, terminated(2), BAD, ("Failed", "CheckupFailed"), id="it says failure and ends badly"),
        pytest.param(FAILED, terminated(1), GOOD, ("Failed", "SuccessThenCrash"), id="it says success and ends badly"),
        pytest.param(FAILED, terminated(1), NONE, ("Failed", "ContainerFailed"), id="it says nothing and ends badly"),
        pytest.param(FAILED, terminated(137, "OOMKilled"), NONE, ("Failed", "ContainerFailed"), id="out of memory"),
        pytest.param(FAILED, terminated(128, "StartError"), NONE, ("InfraError", "ContainerNotStarted"), id="no program"),
        pytest.param(FAILED, None, NONE, ("InfraError", "PodLost"), id="the pod is gone"),
        pytest.param(FAILED, a_pod("Failed", reason="Evicted"), NONE, ("InfraError", "PodDisrupted"), id="evicted"),
        pytest.param(FAILED, a_pod("Failed", conditions=[DISRUPTION]), GOOD, ("InfraError", "PodDisrupted"), id="drained"),
        pytest.param(
            FAILED, a_pod("Failed", reason="DeadlineExceeded", terminated={"exitCode": 137, "startedAt": "2026-01-01T10:00:00Z"}),
            BAD, ("TimedOut", "DeadlineExceeded"), id="the kubelet stopped it",
        ),
        pytest.param(
            a_job("Failed", "DeadlineExceeded"), running(), NONE, ("TimedOut", "DeadlineExceeded"), id="the Job's own deadline",
        ),
        pytest.param(
            a_job("Failed", "DeadlineExceeded"), waiting("ImagePullBackOff"), NONE,
            ("InfraError", "ContainerNotStarted"), id="the Job's own deadline, before it ever ran",
        ),
    ],
)  # fmt: skip
def test_finished_job_gives_its_verdict(job, pod, results, want):
    found = verdict.ending_of_job(job, pod, results)
    assert (found.verdict, found.reason) == want
    assert found.message


def with_sidecar(phase: str, code: int, *, reason: str = "", sidecar: str = "running"):
    """Return a pod whose checkup has ended while its sidecar has not, or has failed."""
    ended = {"exitCode": code, "startedAt": "2026-01-01T10:00:00Z"}
    return msgspec.structs.replace(
        base := terminated(code),
        status=msgspec.structs.replace(
            base.status,
            phase=phase,
            reason=reason,
            container_statuses=msgspec.convert(
                [
                    {"name": "proxy", "state": {sidecar: {}}},
                    {"name": "checkup", "state": {"terminated": ended}},
                ],
                tuple[ContainerStatus, ...],
            ),
        ),
    )


@pytest.mark.parametrize(
    ("job", "pod", "results", "want"),
    [
        pytest.param(a_job(), with_sidecar("Running", 0), GOOD, ("Passed", "CheckupSucceeded"), id="sidecar runs on"),
        pytest.param(a_job(), with_sidecar("Running", 1), NONE, ("Failed", "ContainerFailed"), id="sidecar outlives a crash"),
        pytest.param(FAILED, with_sidecar("Failed", 0, sidecar="terminated"), GOOD,
                     ("Passed", "CheckupSucceeded"), id="sidecar failed"),
        pytest.param(FAILED, with_sidecar("Failed", 0, sidecar="terminated"), NONE,
                     ("Failed", "SucceededMissing"), id="sidecar failed and no results"),
        pytest.param(a_job("Failed", "DeadlineExceeded"), with_sidecar("Failed", 0, reason="DeadlineExceeded"), GOOD,
                     ("Passed", "CheckupSucceeded"), id="sidecar reached the deadline"),
        pytest.param(a_job("Failed", "DeadlineExceeded"), with_sidecar("Failed", 0, reason="DeadlineExceeded"), NONE,
                     ("TimedOut", "DeadlineExceeded"), id="checkup was stopped and exited with 0"),
    ],
)  # fmt: skip
def test_checkup_container_decides_whatever_its_sidecars_do(job, pod, results, want):
    outcome = pod.as_of_job if job.succeeded is None else job
    found = verdict.ending_of_job(outcome, pod, results)
    assert (found.verdict, found.reason) == want


def test_success_message_matches_the_design():
    assert verdict.ending_of_job(COMPLETE, None, GOOD).message == "The checkup finished successfully"


def test_failure_reason_of_the_checkup_is_the_message():
    found = verdict.ending_of_job(FAILED, terminated(2), BAD)
    assert (found.message, found.failure_reason) == ("check: slow", "check: slow")


def test_message_contains_the_exit_code():
    assert (
        "exit code 137 (OOMKilled)"
        in verdict.ending_of_job(FAILED, terminated(137, "OOMKilled"), NONE).message
    )


def test_timeout_on_a_lost_node_is_an_infrastructure_error():
    lost = a_pod(reason="NodeLost", running={"startedAt": "2026-01-01T10:00:00Z"})
    assert verdict.ending_at_deadline(lost, None, 5, Results()).verdict == "InfraError"


def test_timeout_while_running_gives_timed_out():
    found = verdict.ending_at_deadline(running(), None, 5, Results())
    assert found.verdict == "TimedOut"
    assert "it ran for more than 5 s" in found.message


@pytest.mark.parametrize(
    ("pod", "waits_for", "want"),
    [
        (None, None, "PodNotCreated"),
        (None, Obstacle(ObstacleReason.NO_POD, "exceeded quota"), "PodNotCreated"),
        (None, Obstacle(ObstacleReason.NO_SERVICE_ACCOUNT, "not there"), "ServiceAccountMissing"),
        (a_pod("Pending"), None, "ContainerNotStarted"),
        (waiting("ErrImagePull"), obstacle(waiting("ErrImagePull")), "ImagePullFailed"),
    ],
)
def test_timeout_before_start_is_an_infrastructure_error(pod, waits_for, want):
    found = verdict.ending_at_deadline(pod, waits_for, 5, Results())
    assert (found.verdict, found.reason) == ("InfraError", want)


@pytest.mark.parametrize("reason", ObstacleReason)
def test_every_obstacle_has_a_next_step(reason):
    found = verdict.ending_of_obstacle(Obstacle(reason, "what there is"))
    assert found.message.startswith("what there is; next: ")


@pytest.mark.parametrize(
    ("pod", "want", "lasting"),
    [
        (a_pod("Pending"), None, False),
        (waiting("ContainerCreating"), None, False),
        (waiting("PodInitializing"), None, False),
        (running(), None, False),
        (waiting("ErrImagePull", "not found"), "ImagePullFailed", False),
        (waiting("ErrImageNeverPull"), "ImagePullFailed", False),
        (waiting("InvalidImageName"), "ImagePullFailed", True),
        (waiting("CreateContainerConfigError", 'secret "x" not found'), "ContainerNotStarted", False),
        (
            a_pod(
                "Pending", conditions=[{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]
            ),
            "Unschedulable",
            False,
        ),
    ],
)
def test_obstacle_of_a_pod_is_found(pod, want, lasting):
    found = obstacle(pod)
    assert (found.reason if found else None) == want
    assert (found.lasting if found else False) == lasting
