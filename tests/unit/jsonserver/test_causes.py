"""The same cause always has the same text, however often the kubelet and the scheduler rephrase it."""

import msgspec
import pytest

from quintet.controllers.decide.causes import (
    Cause,
    CauseReason,
    DeploymentCondition,
    cause_of_deployment,
    cause_of_mount,
    cause_of_pod,
    choose_cause,
)
from quintet.controllers.decide.pods import PodView

PULL = 'failed to pull "x": lookup r on 10.96.0.10:53: read udp 10.88.0.5:{}->10.96.0.10:53: i/o timeout'


def a_pod(*containers, conditions=(), init=()) -> PodView:
    body = {
        "metadata": {"name": "p", "namespace": "ns"},
        "status": {
            "conditions": list(conditions),
            "containerStatuses": list(containers),
            "initContainerStatuses": list(init),
        },
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=PodView)


def waiting(reason, message="", **more):
    return {"name": "c", "state": {"waiting": {"reason": reason, "message": message}}, **more}


def crashed(**state):
    last = {"terminated": {"exitCode": 1, "reason": "Error"}}
    return {"name": "c", "restartCount": 3, "lastState": last, "state": state}


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(a_pod(waiting("ErrImagePull", "no such image")),
                     ("ImagePullFailed", "container c: ErrImagePull: no such image"), id="pull"),
        pytest.param(a_pod(waiting("ImagePullBackOff", 'Back-off pulling image "x": ErrImagePull: no such image')),
                     ("ImagePullFailed", "container c: ErrImagePull: no such image"), id="back-off of the pull"),
        pytest.param(a_pod(waiting("InvalidImageName", "bad")),
                     ("ImagePullFailed", "container c: InvalidImageName: bad"), id="bad name"),
        pytest.param(a_pod(waiting("CreateContainerConfigError", 'secret "s" not found')),
                     ("ContainerNotStarted", 'container c: CreateContainerConfigError: secret "s" not found'), id="secret"),
        pytest.param(a_pod(init=[waiting("ErrImagePull", "none")]),
                     ("ImagePullFailed", "container c: ErrImagePull: none"), id="init container"),
        pytest.param(a_pod(crashed(waiting={"reason": "CrashLoopBackOff", "message": "back-off 40s"})),
                     ("CrashLoop", "container c ends again and again: exit code 1 (Error)"), id="between crashes"),
        pytest.param(a_pod(crashed(running={})),
                     ("CrashLoop", "container c ends again and again: exit code 1 (Error)"), id="restarted"),
        pytest.param(a_pod(conditions=[{"type": "PodScheduled", "status": "False", "message": "0/1 nodes"}]),
                     ("Unschedulable", "pod p cannot be scheduled: 0/1 nodes"), id="no node"),
        pytest.param(a_pod(waiting("ContainerCreating")), None, id="on its way"),
        pytest.param(a_pod({"name": "c", "ready": True, "restartCount": 3, "state": {"running": {}},
                            "lastState": {"terminated": {"exitCode": 1}}}), None, id="recovered"),
        pytest.param(a_pod(), None, id="nothing known"),
    ],
)  # fmt: skip
def test_cause_of_pod(pod, want):
    found = cause_of_pod(pod)
    assert (found and (found.reason, found.message)) == want


def test_cause_without_random_local_port_is_the_same_in_each_attempt():
    texts = {
        cause_of_pod(a_pod(waiting("ErrImagePull", PULL.format(port)))).message for port in (53321, 40112)
    }
    assert len(texts) == 1


def test_back_off_without_an_error_keeps_the_error_that_was_reported():
    vague = cause_of_pod(a_pod(waiting("ImagePullBackOff", 'Back-off pulling image "x"')))
    kept = choose_cause([vague], "ImagePullFailed", "container c: ErrImagePull: no such image")
    assert kept.message == "container c: ErrImagePull: no such image"
    assert choose_cause([vague], "RollingOut", "").message == (
        'container c: ImagePullBackOff: Back-off pulling image "x"'
    )


def test_most_specific_cause_is_chosen_and_then_kept():
    image, unscheduled = Cause(CauseReason.IMAGE, "z"), Cause(CauseReason.UNSCHEDULABLE, "a")
    assert choose_cause([unscheduled, image], "", "") is image
    assert choose_cause([unscheduled, image], "Unschedulable", "a") is unscheduled
    assert choose_cause([], "Unschedulable", "a") is None


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param([("ReplicaFailure", "True", "FailedCreate", 'pods "a-x1" is forbidden: exceeded quota: q')],
                     ("PodNotCreated", "the pods cannot be created: exceeded quota: q"), id="quota"),
        pytest.param([("Progressing", "False", "ProgressDeadlineExceeded", "timed out")],
                     ("ProgressDeadlineExceeded", "timed out"), id="deadline"),
        pytest.param([("Progressing", "False", "ProgressDeadlineExceeded", "timed out"),
                      ("ReplicaFailure", "True", "FailedCreate", "violates PodSecurity")],
                     ("PodNotCreated", "the pods cannot be created: violates PodSecurity"), id="both"),
        pytest.param([("Progressing", "True", "ReplicaSetUpdated", "on its way")], None, id="progress"),
        pytest.param([("ReplicaFailure", "False", "", "")], None, id="over"),
    ],
)  # fmt: skip
def test_cause_of_deployment(conditions, want):
    found = cause_of_deployment(DeploymentCondition(*condition) for condition in conditions)
    assert (found and (found.reason, found.message)) == want


def test_cause_of_mount_is_the_message_of_the_event():
    found = cause_of_mount('MountVolume.SetUp failed for volume "v" : secret "s" not found')
    assert (found.reason, found.message) == (
        "VolumeNotMounted",
        'MountVolume.SetUp failed for volume "v" : secret "s" not found',
    )
