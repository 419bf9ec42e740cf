"""When a replica gives up the data on volumes that it cannot use."""

from typing import Any

import pytest

from kit.kinds.statefulcluster_pods import NOW, a_pod, pending, seen
from quintet.apis.statefulcluster import ClaimContent, DataLoss, DataLossPolicy
from quintet.controllers.statefulcluster.decide.actions import Act
from quintet.controllers.statefulcluster.decide.observed import DataLossRule, Observed, VolumeLook
from quintet.controllers.statefulcluster.decide.plan import plan
from quintet.controllers.statefulcluster.decide.volumes import CONSENT, UNREACHABLE

GONE = VolumeLook(NOW, "the nodes of volume pv of claim data-web-z do not exist")
NO_ZONE = VolumeLook(NOW, "no node has the labels that volume pv requires", may_return=True)
NAMES = "abcdefgh"


def lost(
    ready: int, replicas: int, *, for_seconds: float = 0.0, look: VolumeLook = GONE, **rule: Any
) -> Observed:
    """A cluster with some ready replicas, and the pending replica z, whose volume is lost."""
    changes = {key: rule.pop(key) for key in ("consent", "contents") if key in rule}
    pods = [a_pod(name) for name in NAMES[:ready]]
    waiting = pending("z", created=NOW - 900, unscheduled=True)
    return seen(
        *pods, waiting, replicas=replicas, want={"data_loss": DataLossRule.of(DataLoss(**rule))},
        looks={"z": look}, lost_since={"z": NOW - for_seconds} if for_seconds else {}, **changes,
    )  # fmt: skip


GIVES_UP = {
    "a minority, after ten minutes": lost(2, 3, for_seconds=600),
    "the second of five": lost(3, 5, for_seconds=600),
    "after a shorter time that is set": lost(2, 3, for_seconds=61, after="1m"),
    "a lower floor is set": lost(1, 3, for_seconds=600, min_data_replicas=1),
    "no floor is set": lost(0, 3, for_seconds=600, min_data_replicas="0%"),
    "nobody was ever ready with it": lost(0, 1, contents={"z": ClaimContent.EMPTY}),
    "Never, and the user agrees": lost(2, 3, policy=DataLossPolicy.NEVER, consent=frozenset({"uid-data-z"})),
    "Ask, and the user agrees": lost(2, 3, policy=DataLossPolicy.ASK, consent=frozenset({"uid-data-z"})),
    "below the floor, and the user agrees": lost(0, 3, consent=frozenset({"uid-data-z"})),
    "a zone without nodes, and the user agrees": lost(2, 3, look=NO_ZONE, consent=frozenset({"uid-data-z"})),
}  # fmt: skip

WAITS = {
    "a minority, for less than ten minutes": (lost(2, 3, for_seconds=599), UNREACHABLE),
    "a minority, seen for the first time": (lost(2, 3), UNREACHABLE),
    "the only replica": (lost(0, 1, for_seconds=9999), CONSENT),
    "one of two": (lost(1, 2, for_seconds=9999), CONSENT),
    "the second of three": (lost(1, 3, for_seconds=9999), CONSENT),
    "the third of five": (lost(2, 5, for_seconds=9999), CONSENT),
    "Never": (lost(2, 3, for_seconds=9999, policy=DataLossPolicy.NEVER), CONSENT),
    "Ask": (lost(2, 3, for_seconds=9999, policy=DataLossPolicy.ASK), CONSENT),
    "Ask, and the user agrees to other claims": (
        lost(2, 3, policy=DataLossPolicy.ASK, consent=frozenset({"uid-data-y"})), CONSENT),
    "a zone without nodes": (lost(2, 3, for_seconds=9999, look=NO_ZONE), CONSENT),
    "a higher floor is set": (lost(2, 3, for_seconds=9999, min_data_replicas=3), CONSENT),
}  # fmt: skip


@pytest.mark.parametrize("case", GIVES_UP)
def test_claims_are_set_aside_as_the_policy_allows(case):
    action = plan(GIVES_UP[case])
    assert (action.act, action.group) == (Act.SET_ASIDE, "z"), action


@pytest.mark.parametrize("case", WAITS)
def test_replica_waits_for_its_data_where_the_policy_does_not_allow_to_give_it_up(case):
    observed, reason = WAITS[case]
    action = plan(observed)
    assert (action.act, action.reason, action.blocked) == (Act.WAIT, reason, True), action


def test_consent_message_names_claims_uids_and_command():
    text = plan(lost(0, 1, for_seconds=9999)).message
    for part in (
        "data-web-z",
        "web-z",
        "kubectl annotate stc web -n shop",
        "enge.me/give-up-claims=uid-data-z",
    ):
        assert part in text, text


def test_waiting_replica_says_when_it_gives_up():
    action = plan(lost(2, 3, for_seconds=590))
    assert "unless the volume comes back" in action.message
    assert action.after == pytest.approx(10.1)


def test_claims_in_a_zone_without_nodes_are_never_given_up_by_time():
    for replicas in range(1, 8):
        observed = lost(replicas - 1, replicas, for_seconds=1e6, look=NO_ZONE)
        assert plan(observed).reason == CONSENT


@pytest.mark.parametrize("replicas", range(1, 9))
def test_majority_of_the_data_is_never_given_up(replicas):
    """One after the other, as long as the plan gives up: a majority is left."""
    left = replicas
    while left and plan(lost(left - 1, replicas, for_seconds=1e6)).act is Act.SET_ASIDE:
        left -= 1
    assert left > replicas / 2
