"""What is wrong with the pods of a controller, from their statuses."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from quintet.apis.meta import Condition
from quintet.clock import timestamp
from quintet.controllers.decide.pods import PodView
from quintet.controllers.suite.decide.pods import find_cause, recent_restarts, reduce_pod

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def a_pod(container, **meta):
    body = {
        "metadata": {
            "name": "p",
            "namespace": "quintet-system",
            "resourceVersion": "1",
            "labels": {"app.kubernetes.io/name": "quintet"},
            **meta,
        },
        "status": {"containerStatuses": [{"name": "quintet", **container}]},
    }
    return reduce_pod(msgspec.json.decode(msgspec.json.encode(body), type=PodView))


def restarted(count, reason, ago):
    ended = {"exitCode": 137, "reason": reason, "finishedAt": timestamp(NOW - ago)}
    return {
        "ready": True,
        "restartCount": count,
        "lastState": {"terminated": ended},
        "state": {"running": {}},
    }


PULL = {"state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(a_pod(restarted(1, "OOMKilled", MINUTE)),
                     ["pod p restarted 1 time, last: OOMKilled (exit code 137)"], id="one for lack of memory"),
        pytest.param(a_pod(restarted(3, "Error", MINUTE)),
                     ["pod p restarted 3 times, last: Error (exit code 137)"], id="many"),
        pytest.param(a_pod(restarted(2, "Error", MINUTE)), [], id="few"),
        pytest.param(a_pod(restarted(9, "OOMKilled", 11 * MINUTE)), [], id="long ago"),
        pytest.param(a_pod(restarted(9, "OOMKilled", MINUTE), deletionTimestamp=timestamp(NOW)), [], id="ending"),
        pytest.param(a_pod({"ready": True}), [], id="none"),
    ],
)  # fmt: skip
def test_restarts_are_reported_for_ten_minutes(pod, want):
    assert recent_restarts([pod], NOW) == want


def test_cause_is_that_of_pods_or_that_of_their_creation():
    assert a_pod(PULL).process == "quintet"
    assert find_cause([a_pod({"ready": True}), a_pod(PULL)]) == "container quintet: ErrImagePull: not found"
    quota = Condition("ReplicaFailure", "True", "FailedCreate", 'pods "x-1" is forbidden: exceeded quota: q')
    assert find_cause([], [quota]) == "the pods cannot be created: exceeded quota: q"
    late = Condition("Progressing", "False", "ProgressDeadlineExceeded", "ReplicaSet has timed out")
    assert find_cause([], [late]) == "", "the rollout says so already"
