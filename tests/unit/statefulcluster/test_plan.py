"""The strategy, row by row: what is seen, and the one thing that is done about it."""

import dataclasses

import pytest

from kit.kinds.statefulcluster_pods import NEW, NOW, OLD, a_claim, a_pod, leaving, not_ready, pending, seen
from quintet.apis.meta import ObjectKey
from quintet.apis.statefulcluster import ClaimContent, Draw, Setback
from quintet.controllers.statefulcluster.decide import plan as strategy
from quintet.controllers.statefulcluster.decide.actions import Act, Action, records_after
from quintet.controllers.statefulcluster.decide.health import MAX_SETBACKS
from quintet.controllers.statefulcluster.decide.observed import (
    DesiredState,
    ExpansionRefusal,
    Observed,
    VolumeLook,
    format_time,
)
from quintet.controllers.statefulcluster.decide.plan import CHECKS, plan, revision_for


def outcome(action: Action) -> tuple[Act, str, str]:
    return action.act, action.target, action.reason


A, B, C = a_pod("a", created=NOW - 300), a_pod("b", created=NOW - 200), a_pod("c", created=NOW - 100)
GIVEN_UP = (Setback(NEW, 3 * MAX_SETBACKS, format_time(NOW - 5000)),)

ROWS = {
    "nothing differs: nothing is done": (seen(A, B, C), Act.NOTHING, "", "AsWanted"),
    "too many: the newest goes": (seen(A, B, C, replicas=2), Act.REMOVE, "web-c", "TooMany"),
    "too many: one that is not ready goes first": (
        seen(not_ready("a", 5, created=NOW - 300), B, C, replicas=2), Act.REMOVE, "web-a", "TooMany"),
    "too many: the cheapest goes before the newest": (
        seen(a_pod("a", cost=-1), B, C, replicas=2), Act.REMOVE, "web-a", "TooMany"),
    "too many: not ready weighs more than cost": (
        seen(a_pod("a", cost=-1), not_ready("b", 5), C, replicas=2), Act.REMOVE, "web-b", "TooMany"),
    "too many: one that has no pod yet goes before all": (
        seen(A, B, replicas=2, draws=(Draw("web-x", "x"),)), Act.FORGET, "web-x", "TooMany"),
    "too many, and one is going already: it is waited for": (
        seen(A, B, leaving("c"), replicas=1), Act.WAIT, "web-c", "Leaving"),
    "pending: it is waited for": (seen(A, pending("b")), Act.WAIT, "web-b", "PodPending"),
    "pending, and another failed: one never hides the other": (
        seen(pending("a"), a_pod("b", phase="Failed", ready=False), C), Act.REPLACE, "web-b", "Unhealthy"),
    "pending, of an older template: it is updated": (
        seen(A, B, pending("c", revision=OLD), current_revision=OLD), Act.UPDATE, "web-c", "Superseded"),
    "pending, of an older template, with OnDelete: its user deletes it": (
        seen(A, B, pending("c", revision=OLD), want={"on_delete": True}), Act.WAIT, "web-c", "PodPending"),
    "unready for a moment, of an older template: it is evicted within the budget, as any outdated pod": (
        seen(A, B, not_ready("c", 3, revision=OLD), current_revision=OLD),
        Act.UPDATE, "web-c", "Outdated"),
    "two unready for a moment, of an older template: they may become ready again": (
        seen(A, not_ready("b", 3, revision=OLD), not_ready("c", 3, revision=OLD), current_revision=OLD),
        Act.WAIT, "web-b", "NotAvailable"),
    "unready for a moment, of an older template, with OnDelete: it stays": (
        seen(A, B, not_ready("c", 3, revision=OLD), want={"on_delete": True}),
        Act.WAIT, "web-c", "NotAvailable"),
    "all unready for a moment while one is updated: none is removed": (
        seen(not_ready("a", 3, revision=OLD), not_ready("b", 3, revision=OLD), draws=(Draw("web-c", "c"),),
             claims=[a_claim("a"), a_claim("b"), a_claim("c")], current_revision=OLD, want={"parallel": True}),
        Act.MAKE, "web-c", "NoPod"),
    "never ready, of an older template: it is updated": (
        seen(A, B, a_pod("c", revision=OLD, ready=False, accepted_at=NOW - 3600), current_revision=OLD),
        Act.UPDATE, "web-c", "Superseded"),
    "all unready beyond the grace: one is replaced first": (
        seen(not_ready("a", 45), not_ready("b", 45), not_ready("c", 45)),
        Act.REPLACE, "web-a", "Unhealthy"),
    "all unready beyond the grace, one is starting: the others wait for it": (
        seen(not_ready("a", 45), not_ready("b", 45), pending("c")), Act.WAIT, "web-c", "PodPending"),
    "all unready beyond the grace, Parallel, one is starting: the others wait for it": (
        seen(not_ready("a", 45), not_ready("b", 45), pending("c"), want={"parallel": True}),
        Act.WAIT, "web-c", "PodPending"),
    "all unready beyond the grace, one is recorded: it is made first": (
        seen(not_ready("a", 45), not_ready("b", 45), draws=(Draw("web-c", "c"),), want={"parallel": True}),
        Act.MAKE, "web-c", "NoPod"),
    "all unready beyond the grace, two may be missing: the second is replaced as well": (
        seen(not_ready("a", 45), not_ready("b", 45), pending("c"), want={"max_unavailable": 2}),
        Act.REPLACE, "web-a", "Unhealthy"),
    "pending, of the template that the partition keeps: it is waited for": (
        seen(A, pending("c", revision=OLD), want={"partition": 1}, current_revision=OLD),
        Act.WAIT, "web-c", "PodPending"),
    "pending without its claim: the claim is made again": (
        seen(A, pending("b"), claims=[a_claim("a")]), Act.REPAIR_CLAIMS, "web-b", "ClaimMissing"),
    "pending with a claim that is being deleted: the pod lets go of it": (
        seen(A, pending("b"), claims=[a_claim("a"), a_claim("b", deleting=True)]),
        Act.REMOVE, "web-b", "ClaimTerminating"),
    "pending with a lost claim: its data is waited for": (
        seen(A, B, pending("c"), claims=[a_claim("a"), a_claim("b"), a_claim("c", phase="Lost")]),
        Act.WAIT, "web-c", "DataUnreachable"),
    "pending with a claim that was lost long ago: the group is set aside": (
        seen(A, B, pending("c"), claims=[a_claim("a"), a_claim("b"), a_claim("c", phase="Lost")],
             lost_since={"c": NOW - 601}), Act.SET_ASIDE, "web-c", "ClaimLost"),
    "two pending, the second with a lost claim: the group of the second is set aside": (
        seen(A, B, C, pending("d", created=NOW - 9), pending("e"), replicas=5, want={"parallel": True},
             claims=[*map(a_claim, "abcd"), a_claim("e", phase="Lost")], lost_since={"e": NOW - 601}),
        Act.SET_ASIDE, "web-e", "ClaimLost"),
    "pending with a lost claim that nobody used: the group is set aside": (
        seen(A, pending("b"), claims=[a_claim("a"), a_claim("b", phase="Lost")], contents={"b": ClaimContent.EMPTY}),
        Act.SET_ASIDE, "web-b", "ClaimLost"),
    "claims set aside can be reached again: they are used again": (
        seen(A, B, pending("c"), claims=[a_claim("z", unusable="gone", until_reachable=True)],
             looks={"z": VolumeLook(NOW)}), Act.USE_AGAIN, "z", "ClaimsReachable"),
    "claims marked by a user can be reached: they stay marked": (
        seen(A, B, C, claims=[a_claim("z", unusable="mine")], looks={"z": VolumeLook(NOW)}),
        Act.NOTHING, "", "AsWanted"),
    "claims with data are free again: a replica that never became ready with empty ones takes them": (
        seen(A, B, pending("c"), free=("z",), contents={"c": ClaimContent.EMPTY}),
        Act.REMOVE, "web-c", "DataReturned"),
    "pending with claims that were set aside: the pod gets others": (
        seen(A, pending("b"), claims=[a_claim("a"), a_claim("b", unusable="gone")]),
        Act.REMOVE, "web-b", "ClaimsUnusable"),
    "pending without a node for a minute: that is reported": (
        seen(A, pending("b", created=NOW - 61, unscheduled=True)), Act.WAIT, "web-b", "Unschedulable"),
    "pending, its claim unbound for minutes: that is reported": (
        seen(A, pending("b", created=NOW - 301), claims=[a_claim("a"), a_claim("b", phase="Pending")]),
        Act.WAIT, "web-b", "ClaimUnbound"),
    "pending, its claim will not be bound: the group is set aside": (
        seen(A, pending("b", created=NOW - 301), claims=[a_claim("a"), a_claim("b", phase="Pending")],
             looks={"b": VolumeLook(NOW, "no class")}, contents={"b": ClaimContent.EMPTY}),
        Act.SET_ASIDE, "web-b", "ClaimUnbound"),
    "pending, unbound as the group before it: that is reported and no third one tried": (
        seen(A, pending("b", created=NOW - 301), claims=[
            a_claim("a"), a_claim("b", phase="Pending"), a_claim("z", phase="Pending", unusable="unbound")]),
        Act.WAIT, "web-b", "ClaimUnbound"),
    "not ready within the grace: it is waited for": (
        seen(A, B, not_ready("c", 29)), Act.WAIT, "web-c", "NotAvailable"),
    "not ready beyond the grace: it is replaced": (
        seen(A, B, not_ready("c", 31)), Act.REPLACE, "web-c", "Unhealthy"),
    "not ready, and its startup probe still runs: a slow starter is not unhealthy": (
        seen(A, B, not_ready("c", 900, started=False)), Act.WAIT, "web-c", "NotAvailable"),
    "restarted a moment ago: the grace begins anew": (
        seen(A, B, not_ready("c", 900, started_at=NOW - 5)), Act.WAIT, "web-c", "NotAvailable"),
    "a longer grace is asked for: it is given": (
        seen(A, B, not_ready("c", 31), want={"grace": 60.0}), Act.WAIT, "web-c", "NotAvailable"),
    "failed: it is replaced at once": (
        seen(A, B, a_pod("c", phase="Failed", ready=False, ready_since=NOW)),
        Act.REPLACE, "web-c", "Unhealthy"),
    "phase unknown: it is replaced": (
        seen(A, B, a_pod("c", phase="Unknown", ready=False)), Act.REPLACE, "web-c", "Unhealthy"),
    "crash loop: it is replaced": (
        seen(A, B, not_ready("c", 1, crash="crashes", started=False)), Act.REPLACE, "web-c", "Unhealthy"),
    "crash loop of a pod just made: it gets its grace": (
        seen(A, B, not_ready("c", 1, crash="crashes", started=False, created=NOW - 3)),
        Act.WAIT, "web-c", "NotAvailable"),
    "unhealthy again: the next replacement waits": (
        seen(A, B, not_ready("c", 99), setbacks=(Setback(NEW, 6, format_time(NOW - 5)),)),
        Act.WAIT, "web-c", "BackOff"),
    "unhealthy again, long after: it is replaced": (
        seen(A, B, not_ready("c", 99), setbacks=(Setback(NEW, 6, format_time(NOW - 25)),)),
        Act.REPLACE, "web-c", "Unhealthy"),
    "each replica was unhealthy once: nothing is delayed": (
        seen(A, B, not_ready("c", 99), setbacks=(Setback(NEW, 2, format_time(NOW - 1)),)),
        Act.REPLACE, "web-c", "Unhealthy"),
    "unhealthy too often, and one is missing: it is made": (
        seen(A, not_ready("c", 99), setbacks=GIVEN_UP), Act.CREATE, "", "TooFew"),
    "unhealthy again, and one is recorded: it is made": (
        seen(A, not_ready("c", 99), draws=(Draw("web-x", "x"),), setbacks=(Setback(NEW, 6, format_time(NOW - 5)),)),
        Act.MAKE, "web-x", "NoPod"),
    "all failed at once, five were deleted before: the missing ones are made": (
        seen(*(a_pod(name, phase="Failed", ready=False) for name in "ab"), replicas=6,
             setbacks=(Setback(NEW, 5, format_time(NOW - 1)),), want={"parallel": True}),
        Act.REPLACE, "web-a", "Unhealthy"),
    "unhealthy too often: the evidence is kept": (
        seen(A, B, not_ready("c", 99), setbacks=GIVEN_UP), Act.WAIT, "web-c", "GaveUp"),
    "unhealthy too often, and the template was corrected: it heals": (
        seen(A, B, not_ready("c", 99, revision=OLD), setbacks=(Setback(OLD, 9, format_time(NOW)),)),
        Act.UPDATE, "web-c", "Superseded"),
    "setbacks of another template do not count": (
        seen(A, B, not_ready("c", 99), setbacks=(Setback(OLD, 9, format_time(NOW)),)),
        Act.REPLACE, "web-c", "Unhealthy"),
    "too few: one is drawn": (seen(A, B), Act.CREATE, "", "TooFew"),
    "too few, with free claims: they are taken": (seen(A, B, free=("f",)), Act.CREATE, "f", "TooFew"),
    "too few, adoption turned off: the free claims stay free": (
        seen(A, B, free=("f",), want={"adopts_claims": False}), Act.CREATE, "", "TooFew"),
    "too few, free claims being deleted: new ones": (
        seen(A, B, claims=[a_claim("f", deleting=True)]), Act.CREATE, "", "TooFew"),
    "too few, free claims unusable: new ones": (
        seen(A, B, claims=[a_claim("f", unusable="gone")]), Act.CREATE, "", "TooFew"),
    "too few, and one is leaving: its claims are worth waiting for": (
        seen(A, B, leaving("c")), Act.WAIT, "web-c", "Leaving"),
    "too few, and one should be gone long ago: that is said, with the step to take": (
        seen(A, B, leaving("c", -61)), Act.WAIT, "web-c", "PodStuck"),
    "drawn and not made: it is made": (
        seen(A, B, draws=(Draw("web-x", "x"),)), Act.MAKE, "web-x", "NoPod"),
    "drawn, its predecessor of that name still leaving: it is waited for": (
        seen(A, B, leaving("c"), draws=(Draw("web-c", "c"),)), Act.WAIT, "web-c", "Leaving"),
    "drawn, its claims being deleted: it gets others": (
        seen(A, B, claims=[a_claim("x", deleting=True)], draws=(Draw("web-x", "x"),)),
        Act.REGROUP, "web-x", "ClaimsUnusable"),
    "drawn, its claims set aside: it gets others": (
        seen(A, B, claims=[a_claim("x", unusable="gone")], draws=(Draw("web-x", "x"),)),
        Act.REGROUP, "web-x", "ClaimsUnusable"),
    "ready but not for minReadySeconds: it is waited for": (
        seen(A, a_pod("b", ready_since=NOW - 5), want={"min_ready": 10.0}),
        Act.WAIT, "web-b", "NotAvailable"),
    "older templates: the newest pod is updated first": (
        seen(a_pod("a", revision=OLD), a_pod("b", revision=OLD), a_pod("c", revision=OLD),
             current_revision=OLD), Act.UPDATE, "web-c", "Outdated"),
    "older templates, partition: so many of the oldest stay": (
        seen(a_pod("a", revision=OLD), a_pod("b", revision=OLD), a_pod("c"),
             current_revision=OLD, want={"partition": 2}), Act.NOTHING, "", "AsWanted"),
    "older templates, OnDelete: they stay": (
        seen(a_pod("a", revision=OLD), B, C, want={"on_delete": True}), Act.NOTHING, "", "AsWanted"),
    "older templates, one pod not available: the update waits": (
        seen(a_pod("a", revision=OLD), B, pending("c")), Act.WAIT, "web-c", "PodPending"),
    "older templates, two may be missing: the update does not wait for the first": (
        seen(a_pod("a", revision=OLD), B, pending("c"), want={"max_unavailable": 2}),
        Act.UPDATE, "web-a", "Outdated"),
    "a pod of ours that nobody controls is taken back": (
        seen(A, B, orphans=(C,)), Act.ADOPT, "web-c", "Orphaned"),
    "a claim lost its labels: they are restored": (
        seen(A, B, unlabelled=(a_claim("c"),)), Act.RELABEL, "data-web-c", "LabelsLost"),
    "too few, and another pod mounts the claims with data: they are waited for": (
        seen(A, B, free=("c",), held={"c": "backup"}), Act.WAIT, "c", "ClaimsMounted"),
    "too few, and another pod mounts claims that nobody was ready with: new ones": (
        seen(A, B, free=("c",), held={"c": "backup"}, contents={"c": ClaimContent.EMPTY}), Act.CREATE, "", "TooFew"),
    "too few, another pod mounts the claims with data, and only empty claims are free: they are waited for": (
        seen(A, B, free=("c", "d"), held={"c": "backup"}, contents={"d": ClaimContent.EMPTY}),
        Act.WAIT, "c", "ClaimsMounted"),
    "more replicas than claims with data: new ones": (
        seen(A, free=("c",), held={"c": "backup"}), Act.CREATE, "", "TooFew"),
    "a stuck pod without claims: its replacement does not wait for it": (
        seen(A, B, leaving("c", -61.0, group="")), Act.CREATE, "", "TooFew"),
    "a stuck pod without claims, and all replicas: it is reported": (
        seen(A, B, C, leaving("d", -61.0, group="")), Act.WAIT, "web-d", "PodStuck"),
    "a stuck pod with claims: they are waited for": (
        seen(A, B, leaving("c", -61.0)), Act.WAIT, "web-c", "PodStuck"),
    "a foreign pod is not counted": (seen(A, B, foreign=(C,)), Act.CREATE, "", "TooFew"),
    "a pod of the cluster before is waited for": (seen(A, B, before=(C,)), Act.WAIT, "web-c", "Leaving"),
    "a pod of the cluster before that stays": (
        seen(A, B, before=(leaving("c", -61.0),)), Act.WAIT, "web-c", "PodStuck"),
    "a pod of the cluster before has claims that nobody would take": (
        seen(A, B, before=(C,), want={"adopts_claims": False}), Act.CREATE, "", "TooFew"),
    "Parallel: the next is drawn while one is pending": (
        seen(A, pending("b"), want={"parallel": True}), Act.CREATE, "", "TooFew"),
    "Parallel: the next goes while one is going": (
        seen(A, B, leaving("c"), replicas=1, want={"parallel": True}), Act.REMOVE, "web-b", "TooMany"),
    "Parallel: one that leaves is still waited for by whoever takes its claims": (
        seen(A, B, leaving("c"), want={"parallel": True}), Act.WAIT, "web-c", "Leaving"),
    "scaled down with Delete: the claims go once the pod is gone": (
        seen(A, replicas=1, free=("z",), retiring=("z",), want={"delete_when_scaled": True}),
        Act.DELETE_CLAIM, "data-web-z", "ScaledDown"),
    "scaled down with Delete, the pod still there: the claims wait": (
        seen(A, leaving("z"), replicas=1, retiring=("z",), want={"delete_when_scaled": True}),
        Act.WAIT, "web-z", "Leaving"),
    "scaled up again before the claims went: they are taken": (
        seen(A, replicas=2, free=("z",), retiring=("z",), want={"delete_when_scaled": True}),
        Act.CREATE, "z", "TooFew"),
    "scaled down with Delete and a time to keep: the claims stay until then": (
        seen(A, replicas=1, free=("z",), retiring=("z",), freed={"z": NOW - 59},
             want={"delete_when_scaled": True, "keep_when_scaled": 60.0}), Act.NOTHING, "", "AsWanted"),
    "scaled down with Delete, and the time to keep is over: the claims go": (
        seen(A, replicas=1, free=("z",), retiring=("z",), freed={"z": NOW - 60},
             want={"delete_when_scaled": True, "keep_when_scaled": 60.0}),
        Act.DELETE_CLAIM, "data-web-z", "ScaledDown"),
    "scaled up in the time to keep: the claims are taken": (
        seen(A, replicas=2, free=("z",), retiring=("z",), freed={"z": NOW - 60},
             want={"delete_when_scaled": True, "keep_when_scaled": 60.0}), Act.CREATE, "z", "TooFew"),
    "policy changed to Retain in time: the claims stay": (
        seen(A, replicas=1, free=("z",), retiring=("z",)), Act.NOTHING, "", "AsWanted"),
    "Delete never takes groups that were free before": (
        seen(A, replicas=1, free=("z",), want={"delete_when_scaled": True}), Act.NOTHING, "", "AsWanted"),
    "whenDeleted is Delete: claims belong to the cluster": (
        seen(A, replicas=1, uid="me", want={"delete_with_cluster": True}),
        Act.OWN_CLAIM, "data-web-a", "RetentionPolicy"),
    "whenDeleted is Retain again: they no longer do": (
        seen(A, replicas=1, uid="me", claims=[a_claim("a", owners=("me",))]),
        Act.DISOWN_CLAIM, "data-web-a", "RetentionPolicy"),
    "the claim template grew: claims grow": (
        seen(A, replicas=1, claims=[a_claim("a", requested="1Gi")], want={"sizes": {"data": "2Gi"}}),
        Act.EXPAND_CLAIM, "data-web-a", "TemplateGrew"),
    "the claim template grew and the server refused: not again so soon": (
        seen(A, replicas=1, claims=[a_claim("a", requested="1Gi")], want={"sizes": {"data": "2Gi"}},
             refused={"data-web-a": ExpansionRefusal("no", NOW + 1)}), Act.NOTHING, "", "AsWanted"),
    "the claim template grew and the server refused: later it is tried again": (
        seen(A, replicas=1, claims=[a_claim("a", requested="1Gi")], want={"sizes": {"data": "2Gi"}},
             refused={"data-web-a": ExpansionRefusal("no", NOW)}), Act.EXPAND_CLAIM, "data-web-a", "TemplateGrew"),
    "the same size in other words is no growth": (
        seen(A, replicas=1, claims=[a_claim("a", requested="1Gi")], want={"sizes": {"data": "1024Mi"}}),
        Act.NOTHING, "", "AsWanted"),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_plan_chooses_the_expected_action(row):
    observed, *want = ROWS[row]
    assert outcome(plan(observed)) == tuple(want), plan(observed)


def test_checks_are_in_the_documented_order():
    """The order is the documentation: whoever changes it reads docs/statefulcluster.md first."""
    assert [check.__name__ for check in CHECKS] == [
        "adopt_orphan", "restore_labels", "set_claim_owner", "expand_claim", "delete_retired_claim", "scale_down",
        "use_claims_again", "repair_claims", "give_up_claims", "return_to_data", "replace_superseded", "replace_unhealthy", "update_outdated", "create_drawn", "wait_for_leaving", "wait_for_pending", "wait_for_starting", "scale_up",
        "wait_for_unhealthy", "wait_for_stuck",
    ]  # fmt: skip


def test_every_check_decides_some_case():
    deciding = {
        next(check.__name__ for check in CHECKS if check(observed) is not None)
        for observed, *_ in ROWS.values()
        if any(check(observed) for check in CHECKS)
    }
    assert deciding == {check.__name__ for check in CHECKS}


@pytest.mark.parametrize("first", range(len(CHECKS)))
def test_every_earlier_check_wins_over_every_later_one(first, monkeypatch):
    """Each pair in order: both speak, the earlier is heard."""

    def speaks(name):
        return lambda observed: Action(act=Act.WAIT, reason=name, message="")

    for second in range(first + 1, len(CHECKS)):
        checks = [lambda observed: None] * len(CHECKS)
        checks[first], checks[second] = speaks("earlier"), speaks("later")
        monkeypatch.setattr(strategy, "CHECKS", tuple(checks))
        assert plan(seen()).reason == "earlier"


def test_most_recently_freed_claims_are_adopted():
    observed = seen(A, B, free=("long-ago", "just-now"), freed={"long-ago": NOW - 9000, "just-now": NOW - 1})
    assert plan(observed).group == "just-now"


def test_complete_claims_are_adopted_before_incomplete_ones():
    full = [a_claim("full"), a_claim("full", key=ObjectKey("shop", "log-web-full"), template="log")]
    observed = seen(A, B, claims=[a_claim("half"), *full], freed={"half": NOW, "full": NOW - 99})
    observed = dataclasses.replace(observed, spec=DesiredState(replicas=3, templates=("data", "log")))
    assert plan(observed).group == "full"


@pytest.mark.parametrize(
    ("old_pods", "partition", "want"),
    [(0, 0, NEW), (0, 2, OLD), (1, 2, OLD), (2, 2, NEW), (3, 2, NEW)],
)
def test_new_pod_has_the_current_revision_while_the_partition_needs_it(old_pods, partition, want):
    pods = [a_pod(f"p{number}", revision=OLD) for number in range(old_pods)]
    observed = seen(*pods, current_revision=OLD, want={"partition": partition})
    assert revision_for(observed, "web-x") == want


def test_healthy_pods_are_evicted_and_unhealthy_pods_deleted():
    assert plan(seen(A, B, C, replicas=2)).voluntary
    assert plan(seen(a_pod("a", revision=OLD), B, C)).voluntary
    assert not plan(seen(A, B, not_ready("c", 31))).voluntary
    assert not plan(seen(A, B, pending("c", revision=OLD))).voluntary


class TestRecords:
    def records(self, observed: Observed):
        return records_after(observed, plan(observed), lambda: "drawn", "web")

    def test_new_replica_gets_its_own_claim_group(self):
        assert self.records(seen(A, B)).draws == (Draw("web-drawn", "drawn"),)

    def test_new_replica_adopts_free_claims_under_a_new_name(self):
        assert self.records(seen(A, B, free=("f",))).draws == (Draw("web-drawn", "f"),)

    def test_replica_without_claim_templates_has_no_group(self):
        assert self.records(seen(A, B, claims=[], want={"templates": ()})).draws == (Draw("web-drawn", ""),)

    def test_update_keeps_name_and_claims(self):
        assert self.records(seen(a_pod("a", revision=OLD), B, C)).draws == (Draw("web-a", "a"),)

    def test_draw_is_removed_when_its_pod_exists(self):
        assert self.records(seen(A, B, C, draws=(Draw("web-c", "c"),))).draws == ()

    def test_draw_is_kept_until_its_pod_exists(self):
        draws = (Draw("web-x", "x"),)
        assert self.records(seen(A, B, draws=draws)).draws == draws

    def test_replacing_an_unhealthy_pod_counts_as_setback(self):
        observed = seen(A, B, not_ready("c", 99), setbacks=(Setback(NEW, 1, format_time(NOW - 60)),))
        assert self.records(observed).setbacks == (Setback(NEW, 2, format_time(NOW)),)

    def test_setbacks_expire_after_ten_healthy_minutes(self):
        def after(seconds):
            return self.records(seen(A, B, C, setbacks=(Setback(NEW, 2, format_time(NOW - seconds)),)))

        assert after(599).setbacks
        assert after(601).setbacks == ()

    def test_setbacks_do_not_expire_while_a_pod_is_unhealthy(self):
        observed = seen(A, B, not_ready("c", 9999), setbacks=GIVEN_UP)
        assert self.records(observed).setbacks == GIVEN_UP

    def test_scaled_down_replica_retires_its_claims_if_policy_is_delete(self):
        assert self.records(seen(A, B, C, replicas=2)).retiring == ()
        observed = seen(A, B, C, replicas=2, want={"delete_when_scaled": True})
        assert self.records(observed).retiring == ("c",)

    def test_replaced_replica_keeps_its_claims(self):
        observed = seen(A, B, not_ready("c", 99), want={"delete_when_scaled": True})
        assert self.records(observed).retiring == ()

    def test_claims_stop_retiring_when_a_replica_adopts_them(self):
        observed = seen(A, B, C, retiring=("c",), want={"delete_when_scaled": True})
        assert self.records(observed).retiring == ()


@pytest.mark.parametrize(
    ("pod", "setbacks"), [(A, ()), (not_ready("a", 99), GIVEN_UP)], ids=["nothing to do", "given up"]
)
def test_refused_expansion_requeues_the_cluster(pod, setbacks):
    small, larger = [a_claim("a", requested="1Gi")], {"sizes": {"data": "2Gi"}}
    refused = {
        "data-web-a": ExpansionRefusal("no", NOW + 200),
        "data-web-gone": ExpansionRefusal("no", NOW + 1),
    }
    observed = seen(pod, replicas=1, claims=small, want=larger, refused=refused, setbacks=setbacks)
    assert plan(observed).after == pytest.approx(200.1)
    grown = dataclasses.replace(observed, claims=(a_claim("a", requested="2Gi"),))
    assert plan(grown).after is None, "nothing is left to try"
