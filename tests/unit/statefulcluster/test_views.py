"""What is kept of a pod or a claim, from what the server sends."""

import msgspec
import pytest

from quintet.controllers.statefulcluster.decide import views
from quintet.controllers.statefulcluster.decide.observed import Claim, Pod, parse_time

T0, T1, T2 = "2030-01-01T00:00:00Z", "2030-01-01T00:00:10Z", "2030-01-01T00:00:20Z"


def a_pod(status=None, spec=None, **metadata) -> Pod:
    given = {
        "name": "web-x",
        "namespace": "shop",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": T0,
    }
    body = {"metadata": {**given, **metadata}, "spec": spec or {}, "status": status or {}}
    return views.pod(msgspec.json.decode(msgspec.json.encode(body), type=views.PodView))


def test_pod_without_status_is_pending():
    pod = a_pod()
    assert (pod.phase, pod.ready, pod.leaving, pod.created) == ("Pending", False, False, parse_time(T0))


def test_pod_has_readiness_and_its_transition_time():
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": T1}
    pod = a_pod({"phase": "Running", "conditions": [condition]})
    assert (pod.ready, pod.ready_since) == (True, parse_time(T1))


@pytest.mark.parametrize(("started", "want"), [(True, True), (None, True), (False, False)])
def test_pod_has_started_unless_a_startup_probe_is_running(started, want):
    container = {"name": "main", "state": {"running": {"startedAt": T2}}}
    if started is not None:
        container["started"] = started
    pod = a_pod({"phase": "Running", "containerStatuses": [container]})
    assert (pod.started, pod.started_at) == (want, parse_time(T2))


@pytest.mark.parametrize("kind", ["containerStatuses", "initContainerStatuses"])
def test_crash_loop_of_any_container_is_found(kind):
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}
    pod = a_pod({"phase": "Running", kind: [{"name": "main", "restartCount": 4, "state": waiting}]})
    assert pod.crash == "container main crashes repeatedly (4 restarts)"


def test_pending_reason_comes_from_the_scheduler():
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    pod = a_pod({"phase": "Pending", "conditions": [condition]})
    assert (pod.unscheduled, pod.why_pending) == (True, "Unschedulable: no room")


def test_pending_reason_comes_from_the_node():
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    pod = a_pod({"phase": "Pending", "containerStatuses": [{"name": "main", "state": waiting}]})
    assert (pod.unscheduled, pod.why_pending) == (False, "container main: ErrImagePull: not found")


def test_pod_being_created_has_no_pending_reason():
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    assert a_pod({"containerStatuses": [{"name": "main", "state": waiting}]}).why_pending == ""


def test_controller_of_a_pod_is_found():
    ours = {"apiVersion": "enge.me/v1alpha1", "kind": "StatefulCluster", "name": "web", "uid": "o"}
    theirs = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s"}
    assert a_pod().owner_uid == ""
    assert a_pod(ownerReferences=[ours]).owner_uid == "", "an owner that does not control it"
    controlled = a_pod(ownerReferences=[{**ours, "controller": True}])
    assert (controlled.owner_name, controlled.owner_uid) == ("web", "o")
    foreign = a_pod(ownerReferences=[{**theirs, "controller": True}])
    assert (foreign.owner_name, foreign.owner_uid) == ("", "s")


@pytest.mark.parametrize(("text", "want"), [("", 0), ("-7", -7), ("100", 100), ("cheap", 0)])
def test_deletion_cost_is_read_from_the_annotation(text, want):
    assert a_pod(annotations={"controller.kubernetes.io/pod-deletion-cost": text}).cost == want


def test_mounted_claims_are_listed():
    volumes = [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "b-web-1"}},
    ]
    assert a_pod(spec={"volumes": volumes}).claims == ("b-web-1",)


def test_claim_is_reduced_to_its_cached_fields():
    body = {
        "metadata": {
            "name": "data-web-g", "namespace": "shop", "uid": "u", "resourceVersion": "9",
            "creationTimestamp": T0, "deletionTimestamp": T1, "annotations": {"enge.me/unusable": "gone"},
            "labels": {"enge.me/cluster": "web", "enge.me/claim-group": "g", "enge.me/claim-template": "data"},
        },
        "spec": {"volumeName": "pv-1", "resources": {"requests": {"storage": "2Gi"}}},
        "status": {
            "phase": "Bound", "capacity": {"storage": "1Gi"},
            "conditions": [{"type": "FileSystemResizePending", "status": "True"}],
        },
    }  # fmt: skip
    claim = views.claim(msgspec.json.decode(msgspec.json.encode(body), type=views.ClaimView))
    assert claim == Claim(
        key=claim.key, version=9, uid="u", cluster="web", group="g", template="data", phase="Bound",
        volume="pv-1", requested="2Gi", capacity="1Gi", resizing=True, created=parse_time(T0), deleting=True,
        unusable="gone",
    )  # fmt: skip
