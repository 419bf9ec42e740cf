"""The lines that `quintet install` shows while it waits."""

import msgspec
import pytest

from quintet.apis.meta import ObjectKey
from quintet.apis.suite import Quintet
from quintet.controllers.decide.causes import Cause, CauseReason
from quintet.controllers.suite.decide.pods import ProcessPod
from quintet.install.progress import ProgressLines, describe_components, describe_operator


def a_deployment(*, ready=2, updated=2, observed=1):
    return {
        "metadata": {"generation": 1},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": observed, "readyReplicas": ready, "updatedReplicas": updated},
    }


def a_quintet(version="2", observed=1, components=()):
    status = {"version": version, "observedGeneration": observed, "components": list(components)}
    return msgspec.convert({"metadata": {"name": "quintet", "generation": 1}, "status": status}, Quintet)


def a_failing_pod():
    cause = Cause(CauseReason.IMAGE, "container quintet: ErrImagePull: not found")
    return ProcessPod(ObjectKey("ns", "p"), 1, "quintet-operator", cause, "", "")


@pytest.mark.parametrize(
    ("deployment", "pods", "quintet", "want"),
    [
        (a_deployment(observed=0), [], None, "waiting for its rollout to start"),
        (a_deployment(updated=1), [], None, "rolling out: 1 of 2 pods are updated"),
        (a_deployment(ready=0), [], None, "0 of 2 pods are ready"),
        (a_deployment(), [], None, "waiting until it reports the status of the Quintet"),
        (a_deployment(), [], a_quintet("1"), "waiting until it reports the status of the Quintet"),
        (a_deployment(), [], a_quintet(observed=0), "waiting until it reports the status of the Quintet"),
        (a_deployment(), [], a_quintet(), "ready"),
        (
            a_deployment(ready=1, updated=1),
            [a_failing_pod()],
            a_quintet("1"),
            "1 of 2 pods are ready: container quintet: ErrImagePull: not found",
        ),
    ],
)
def test_line_of_the_operator_says_what_it_waits_for(deployment, pods, quintet, want):
    assert describe_operator(deployment, pods, quintet, "2") == want


def test_line_is_shown_again_only_if_it_has_changed():
    components = [{"name": "checkup", "ready": True}, {"name": "eventing", "message": "not started yet"}]
    lines, states = ProgressLines(), describe_components(a_quintet(components=components))
    assert lines.update(states) == ["checkup: ready", "eventing: not started yet"]
    assert lines.update(states) == []
    assert lines.remaining == "eventing: not started yet"
    assert lines.update({**states, "eventing": "ready"}) == ["eventing: ready"]
    assert lines.remaining == ""
