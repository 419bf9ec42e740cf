"""What is said of a StatefulCluster, from what is seen and done."""

import dataclasses

import msgspec
import pytest

from kit.kinds.statefulcluster_pods import NEW, NOW, OLD, a_claim, a_pod, leaving, not_ready, pending, seen
from kit.kinds.statefulclusters import a_cluster
from quintet.apis.meta import find_condition
from quintet.apis.statefulcluster import (
    Claim,
    ClaimState,
    Draw,
    Setback,
    StatefulCluster,
    StatefulClusterStatus,
)
from quintet.controllers.statefulcluster.decide.actions import records_after
from quintet.controllers.statefulcluster.decide.observed import ExpansionRefusal, format_time
from quintet.controllers.statefulcluster.decide.plan import plan
from quintet.controllers.statefulcluster.decide.status import ActionFailure, Notes, status_of

A, B, C = a_pod("a", created=NOW - 300), a_pod("b", created=NOW - 200), a_pod("c", created=NOW - 100)


def a_web(ledger: tuple[Claim, ...] = ()) -> StatefulCluster:
    body = a_cluster()
    body["metadata"] |= {"namespace": "shop", "uid": "me", "generation": 4, "resourceVersion": "5"}
    cluster = msgspec.convert(body, StatefulCluster)
    return msgspec.structs.replace(cluster, status=StatefulClusterStatus(claims=ledger))


def said(observed, cluster=None, trouble=None) -> StatefulClusterStatus:
    action = plan(observed)
    records = records_after(observed, action, lambda: "drawn", "web")
    return status_of(cluster or a_web(), observed, action, records, Notes(0, trouble))


def verdicts(status: StatefulClusterStatus) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in status.conditions}


def test_healthy_cluster_has_the_expected_status():
    status = said(seen(A, B, C))
    counts = (status.replicas, status.ready_replicas, status.available_replicas, status.updated_replicas)
    assert counts == (3, 3, 3, 3)
    assert (status.ready, status.observed_generation) == ("3/3", 4)
    assert status.replica_names == ("web-a", "web-b", "web-c")
    assert verdicts(status) == {
        "Ready": ("True", "AllReplicasAvailable"),
        "Progressing": ("False", "AsWanted"),
        "Degraded": ("False", "AsExpected"),
        "Blocked": ("False", "NotBlocked"),
    }


READY = {
    "one is missing": (seen(A, B), "False", "NotAvailable"),
    "one is pending": (seen(A, B, pending("c")), "False", "NotAvailable"),
    "one is too many": (seen(A, B, C, replicas=2), "False", "TooMany"),
    "one is of an older template": (seen(A, B, a_pod("c", revision=OLD)), "False", "RollingOut"),
    "the partition keeps one back": (
        seen(A, B, a_pod("c", revision=OLD), current_revision=OLD, want={"partition": 1}),
        "True", "AllReplicasAvailable"),
    "one is of an older template, OnDelete": (
        seen(A, B, a_pod("c", revision=OLD), want={"on_delete": True}), "True", "AllReplicasAvailable"),
    "one is not ready for long enough": (
        seen(A, B, a_pod("c", ready_since=NOW - 1), want={"min_ready": 5.0}), "False", "NotAvailable"),
    "none is wanted": (seen(replicas=0), "True", "ScaledToZero"),
}  # fmt: skip


@pytest.mark.parametrize("row", READY)
def test_ready_condition_has_the_expected_reason(row):
    observed, *want = READY[row]
    assert verdicts(said(observed))["Ready"] == tuple(want)


def test_recorded_replica_name_is_listed_at_once():
    assert said(seen(A, B)).replica_names == ("web-a", "web-b", "web-drawn")


def test_replica_name_is_listed_once_during_an_update():
    assert said(seen(A, B, leaving("c"), draws=(Draw("web-c", "c"),))).replica_names == (
        "web-a",
        "web-b",
        "web-c",
    )


def test_first_revision_is_current_only_after_one_of_its_pods_was_ready():
    assert said(seen(pending("a"), not_ready("b", 5, accepted_at=NOW - 5))).current_revision == ""
    assert said(seen(A, pending("b"))).current_revision == NEW


def test_current_revision_is_kept_until_the_update_completes():
    old = a_pod("a", revision=OLD)
    during = said(seen(old, B, C, current_revision=OLD))
    assert (during.current_revision, during.update_revision) == (OLD, NEW)
    assert (during.current_replicas, during.updated_replicas) == (1, 2)
    done = said(seen(A, B, C, current_revision=OLD))
    assert (done.current_revision, done.current_replicas) == (NEW, 3)


def test_degraded_condition_names_the_next_step():
    status = said(seen(A, B, not_ready("c", 99), setbacks=(Setback(NEW, 15, format_time(NOW)),)))
    degraded = find_condition(status.conditions, "Degraded")
    assert degraded is not None
    assert (degraded.status, degraded.reason) == ("True", "GaveUp")
    assert "pod web-c is unhealthy" in degraded.message
    assert "correct spec.template" in degraded.message


def test_stuck_pod_blocks_and_names_the_next_step():
    blocked = find_condition(said(seen(A, B, leaving("c", -99))).conditions, "Blocked")
    assert blocked is not None
    assert (blocked.status, blocked.reason) == ("True", "PodStuck")
    assert "kubectl delete pod web-c -n shop --force" in blocked.message


def test_disruption_budget_is_blocked_and_not_degraded():
    status = said(
        seen(A, B, C, replicas=2), trouble=ActionFailure("DisruptionBudget", "keep-three", blocked=True)
    )
    assert verdicts(status)["Blocked"] == ("True", "DisruptionBudget")
    assert verdicts(status)["Degraded"] == ("False", "AsExpected")
    assert verdicts(status)["Progressing"] == ("False", "DisruptionBudget")


def test_refused_action_is_degraded():
    status = said(seen(A, B), trouble=ActionFailure("Refused", "no"))
    assert verdicts(status)["Degraded"] == ("True", "Refused")


def test_foreign_pods_are_listed_in_the_plan():
    status = said(seen(A, B, C, foreign=(a_pod("stranger"),)))
    assert [(step.action, step.target) for step in status.plan] == [
        ("Nothing", ""),
        ("IgnorePod", "web-stranger"),
    ]


LEDGER = {
    "in use": (a_claim("a"), ClaimState.IN_USE, "in use by its replica"),
    "free": (a_claim("z"), ClaimState.FREE, "adopted by the next replica"),
    "going": (a_claim("a", deleting=True), ClaimState.TERMINATING, "deleted as soon as"),
    "set aside": (a_claim("z", unusable="its node is gone"), ClaimState.UNUSABLE, "its node is gone"),
    "lost": (a_claim("z", phase="Lost"), ClaimState.UNREACHABLE, "waits for its volume"),
    "growing": (a_claim("a", requested="2Gi", capacity="1Gi"), ClaimState.RESIZING, "from 1Gi to 2Gi"),
}


@pytest.mark.parametrize("row", LEDGER)
def test_claim_entry_has_the_expected_state_and_next_step(row):
    claim, want_state, want_text = LEDGER[row]
    (line,) = said(seen(A, replicas=1, claims=[claim])).claims
    assert line.state is want_state
    assert want_text in line.next_step


def test_claim_entry_keeps_last_replica_and_time():
    known = Claim("data-web-z", ClaimState.FREE, replica="web-z", since=format_time(NOW - 500))
    (line,) = said(seen(claims=[a_claim("z")], replicas=0), a_web((known,))).claims
    assert (line.replica, line.since) == ("web-z", format_time(NOW - 500))
    used = msgspec.structs.replace(known, state=ClaimState.IN_USE)
    (line,) = said(seen(claims=[a_claim("z")], replicas=0), a_web((used,))).claims
    assert (line.replica, line.since) == ("web-z", format_time(NOW))


def test_claim_entry_reports_why_it_cannot_grow():
    observed = seen(A, replicas=1, claims=[a_claim("a", requested="1Gi")], want={"sizes": {"data": "2Gi"}},
                    refused={"data-web-a": ExpansionRefusal("the class does not allow it", NOW + 1)})  # fmt: skip
    (line,) = said(observed).claims
    assert line.next_step == "cannot grow to 2Gi: the class does not allow it"
    grown = dataclasses.replace(observed, claims=(a_claim("a", requested="2Gi"),))
    (line,) = said(grown).claims
    assert line.next_step == "in use by its replica", "somebody else let it grow"


def test_claim_entry_reports_retired_claims():
    observed = seen(A, leaving("z"), replicas=1, retiring=("z",), want={"delete_when_scaled": True})
    lines = {line.name: line for line in said(observed).claims}
    assert lines["data-web-z"].state is ClaimState.IN_USE
    gone = dataclasses.replace(observed, pods=(A,))
    lines = {line.name: line for line in said(gone).claims}
    assert lines["data-web-z"].next_step == "deleted next, because whenScaled is Delete"


def test_claim_entry_says_when_claims_are_deleted_and_how_to_keep_them():
    want = {"delete_when_scaled": True, "keep_when_scaled": 60.0}
    observed = seen(A, replicas=1, free=("z",), retiring=("z",), freed={"z": NOW - 20}, want=want)
    (line,) = [line for line in said(observed).claims if line.group == "z"]
    assert line.next_step == (
        f"deleted at {format_time(NOW + 40)}, because whenScaled is Delete; scale up to use it again, or set "
        "whenScaled to Retain to keep it"
    )
    assert plan(observed).after == pytest.approx(40.1)


def test_status_is_deterministic():
    observed = seen(A, B, not_ready("c", 99), setbacks=(Setback(NEW, 15, format_time(NOW)),))
    later = dataclasses.replace(observed, now=NOW + 60)
    assert said(observed).plan == said(later).plan
    assert said(observed).conditions == said(later).conditions


def test_plan_only_sets_progressing_false():
    cluster = a_web()
    paused = msgspec.structs.replace(
        cluster, metadata=msgspec.structs.replace(cluster.metadata, annotations={"enge.me/plan-only": "true"})
    )
    status = said(seen(A, B), paused)
    assert verdicts(status)["Progressing"] == ("False", "PlanOnly")
    assert status.plan[0].action == "CreateReplica"


def test_pod_pending_for_long_is_reported_with_cause_and_next_step():
    why = "container main: ErrImagePull: not found"
    blocked = find_condition(
        said(seen(A, B, pending("c", created=NOW - 61, why_pending=why))).conditions, "Blocked"
    )
    assert blocked is not None
    assert blocked.status == "True"
    for part in ("web-c", why, "correct spec.template", "kubectl describe pod web-c -n shop"):
        assert part in blocked.message


def test_pending_reason_is_not_reported_in_the_first_seconds():
    young, old = (said(seen(A, B, pending("c", created=NOW - age, why_pending="x"))) for age in (2, 11))
    assert young.plan[0].message == "pod web-c is pending"
    assert old.plan[0].message == "pod web-c is pending: x"
