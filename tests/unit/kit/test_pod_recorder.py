"""A recording detects violations, also those of a single moment."""

import pytest

from kit.cluster.pod_recorder import Recording


def a_pod(name: str, *, ready: bool = True, leaving: bool = False, claim: str = "", uid: str = "1") -> dict:
    meta = {"name": name, "uid": f"{name}-{uid}", "resourceVersion": "1", "labels": {"app": "x"}}
    if leaving:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    volume = {"persistentVolumeClaim": {"claimName": claim or f"data-{name}"}}
    return {"metadata": meta, "spec": {"volumes": [volume]}, "status": {"conditions": [condition]}}


START = [a_pod("a"), a_pod("b"), a_pod("c")]


def test_recording_accepts_one_replacement_after_another():
    events = []
    for name in "ab":
        events += [
            ("MODIFIED", a_pod(name, leaving=True)),
            ("DELETED", a_pod(name, leaving=True)),
            ("ADDED", a_pod(f"new-{name}", ready=False, claim=f"data-{name}")),
            ("MODIFIED", a_pod(f"new-{name}", claim=f"data-{name}")),
        ]
    Recording(START, events).check(at_least=2, app="x")


def test_recording_finds_two_pods_that_change_at_once():
    events = [("MODIFIED", a_pod("a", leaving=True)), ("MODIFIED", a_pod("b", ready=False))]
    events += [("MODIFIED", a_pod("b")), ("DELETED", a_pod("a", leaving=True))]
    with pytest.raises(AssertionError, match="changing at once"):
        Recording(START, events).check(app="x")


def test_recording_finds_claim_shared_by_two_pods():
    events = [("ADDED", a_pod("d", claim="data-a"))]
    with pytest.raises(AssertionError, match="shared"):
        Recording(START, events).check(app="x")


def test_recording_finds_too_few_ready_pods():
    events = [("DELETED", a_pod("a")), ("DELETED", a_pod("b"))]
    with pytest.raises(AssertionError, match="1 ready"):
        Recording(START, events).check(at_least=2, app="x")


def test_recording_distinguishes_pods_of_same_name_by_uid():
    events = [("DELETED", a_pod("a")), ("ADDED", a_pod("a", uid="2"))]
    assert [len(moment) for moment in Recording(START, events).moments(app="x")] == [3, 2, 3]


def test_recording_ignores_pods_with_other_labels():
    stranger = a_pod("s", ready=False)
    stranger["metadata"]["labels"] = {"app": "y"}
    events = [("ADDED", stranger), ("MODIFIED", a_pod("a", ready=False))]
    Recording(START, events).check(at_least=2, app="x")
