"""What is read off the pod of a run."""

from datetime import UTC, datetime

import msgspec

from quintet.apis.checkup.results import parse
from quintet.controllers.checkup.decide import verdict
from unit.checkup.observations import START, a_job, a_pod, running, terminated, waiting

FAILED = a_job("Failed", "BackoffLimitExceeded")


def test_running_since_is_the_container_start_time():
    want = datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert running(START).running_since == want
    assert terminated(1).running_since == want
    assert waiting("ContainerCreating").running_since is None
    assert a_pod("Pending").running_since is None


def test_container_that_could_not_start_has_no_running_since():
    state = {"exitCode": 128, "reason": "StartError", "startedAt": "1970-01-01T00:00:00Z"}
    assert a_pod("Failed", terminated=state).running_since is None


def test_deleted_pod_is_an_infrastructure_error():
    pod = terminated(143)
    deleted = msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, deletion_timestamp=START)
    )
    silent = parse({"spec.timeout": "60s"})
    found = verdict.ending_of_job(FAILED, deleted, silent)
    assert (found.verdict, found.reason) == ("InfraError", "PodLost")
    assert found.message == "pod echo-x was deleted during the run; next: rerun"
    said = parse({"status.succeeded": "false", "status.failureReason": "check: slow"})
    assert verdict.ending_of_job(FAILED, deleted, said).message == "check: slow", "it had said why before"
    late = a_job("Failed", "DeadlineExceeded")
    assert verdict.ending_of_job(late, deleted, silent).verdict == "TimedOut", "the Job deletes the pod then"


def test_invalid_results_have_a_next_step():
    for data in (None, {"a": "b"}, {"status.succeeded": "yes"}, {"status.succeeded": "false"}):
        found = verdict.ending_of_job(a_job("Complete"), terminated(0), parse(data))
        assert found.verdict == "Failed"
        assert "; next: fix the image" in found.message
