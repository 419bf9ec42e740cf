"""Which objects of a namespace matter to a cluster, and what its spec asks for."""

import dataclasses
from typing import Any

import msgspec
import pytest

from kit.kinds.statefulcluster_pods import NEW, NOW, a_claim, a_pod, leaving, pending, seen
from kit.kinds.statefulclusters import a_cluster
from quintet.apis.meta import ObjectKey
from quintet.apis.statefulcluster import (
    Claim,
    ClaimContent,
    ClaimState,
    StatefulCluster,
    StatefulClusterStatus,
)
from quintet.controllers.statefulcluster.decide import claims
from quintet.controllers.statefulcluster.decide.actions import Records
from quintet.controllers.statefulcluster.decide.ledger import find_contents, ledger
from quintet.controllers.statefulcluster.decide.observe import (
    desired_state,
    find_unlabelled,
    missing_claims,
    observe,
    resolve_amount,
)
from quintet.controllers.statefulcluster.decide.observed import Observed, format_time

LABELS = {"app": "web"}
DATA, UNKNOWN, EMPTY = ClaimContent


def a_web(status: StatefulClusterStatus | None = None, **spec: Any) -> StatefulCluster:
    body = a_cluster(**spec)
    body["metadata"] |= {"namespace": "shop", "uid": "me", "generation": 4, "resourceVersion": "5"}
    cluster = msgspec.convert(body, StatefulCluster)
    return msgspec.structs.replace(cluster, status=status or StatefulClusterStatus())


def look(*pods, cluster=None, known=()) -> Observed:
    return observe(cluster or a_web(), NEW, pods, known, (), NOW)


def replica(name: str, **changes):
    """A pod as we make them."""
    return a_pod(name, **{"labels": {**LABELS, "enge.me/replica": f"web-{name}"}, **changes})


WHO = {
    "controlled by this object": (replica("a", owner_uid="me", owner_name="web"), "pods"),
    "controlled by it, its labels changed": (a_pod("a", owner_uid="me", labels={}), "pods"),
    "ours and controlled by nobody": (replica("a"), "orphans"),
    "controlled by an object of that name that is gone": (
        replica("a", owner_uid="before", owner_name="web"), "before"),
    "controlled by another StatefulCluster": (replica("a", owner_uid="other", owner_name="db"), None),
    "made by hand with the same labels": (a_pod("a", labels=LABELS), "foreign"),
    "of a Deployment": (a_pod("a", labels=LABELS, owner_uid="other"), "foreign"),
    "labelled as a replica of another cluster": (
        replica("a", labels={**LABELS, "enge.me/replica": "db-a"}), "foreign"),
    "ours, controlled by nobody, and leaving": (
        leaving("a", labels={**LABELS, "enge.me/replica": "web-a"}), None),
    "with other labels": (a_pod("a", labels={"app": "db"}), None),
}  # fmt: skip


@pytest.mark.parametrize("row", WHO)
def test_pods_are_classified_by_owner_and_selector(row):
    pod, want = WHO[row]
    observed = look(pod)
    found = [kind for kind in ("pods", "orphans", "foreign", "before") if pod in getattr(observed, kind)]
    assert found == ([want] if want else [])


def test_empty_selector_selects_nothing():
    cluster = a_web()
    spec = msgspec.structs.replace(cluster.spec, selector=type(cluster.spec.selector)())
    observed = look(a_pod("a"), cluster=msgspec.structs.replace(cluster, spec=spec))
    assert (observed.orphans, observed.foreign) == ((), ())


def test_claims_of_other_clusters_are_ignored():
    known = (a_claim("a", cluster="web"), a_claim("b", cluster="db"))
    assert [claim.group for claim in look(known=known).claims] == ["a"]


def test_pods_are_sorted_by_age():
    pods = [a_pod(name, owner_uid="me", created=NOW - age) for name, age in (("a", 1), ("b", 3), ("c", 2))]
    assert [pod.name for pod in look(*pods).pods] == ["web-b", "web-c", "web-a"]


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("debug", labels={}, group="", claims=("data-web-z",)),
        leaving("z", labels={}, group="", claims=("data-web-z",)),
        a_pod("z", owner_uid="me", group="", claims=("data-web-z",)),
    ],
    ids=["a foreign pod", "an orphan that is leaving", "a pod of ours that lost its label"],
)
def test_claims_mounted_by_any_pod_are_in_use(pod):
    known = (a_claim("z", cluster="web"),)
    assert claims.group_to_adopt(look(known=known)) == "z"
    assert claims.group_to_adopt(look(pod, known=known)) == ""


def test_group_recorded_as_in_use_was_freed_just_now():
    def line(name: str, state: ClaimState, seconds: float) -> Claim:
        return Claim(f"data-web-{name}", state, since=format_time(NOW - seconds))

    ledger = (line("old", ClaimState.FREE, 900), line("used", ClaimState.IN_USE, 5000))
    known = tuple(a_claim(name, cluster="web", created=NOW - 9999) for name in ("old", "used", "unheard"))
    observed = look(cluster=a_web(StatefulClusterStatus(claims=ledger)), known=known)
    assert observed.freed == {"old": NOW - 900, "used": NOW, "unheard": NOW - 9999}
    assert claims.group_to_adopt(observed) == "used"


@pytest.mark.parametrize("state", [ClaimState.FREE, ClaimState.RESIZING, ClaimState.UNUSABLE])
def test_time_of_release_is_kept_in_every_state(state):
    line = Claim("data-web-z", state, since=format_time(NOW - 9), released=format_time(NOW - 900))
    known = (a_claim("z", cluster="web"),)
    observed = look(cluster=a_web(StatefulClusterStatus(claims=(line,))), known=known)
    assert observed.freed == {"z": NOW - 900}


def test_retired_claims_that_the_status_does_not_list_are_not_released_long_ago():
    cluster = a_web(StatefulClusterStatus(retiring=("z",)))
    known = (a_claim("y", cluster="web"), a_claim("z", cluster="web"))
    assert look(cluster=cluster, known=known).freed == {"y": known[0].created, "z": NOW}


LINE = Claim("data-web-z", ClaimState.IN_USE, group="z", content=EMPTY)
RELEASED = msgspec.structs.replace(LINE, state=ClaimState.FREE, released=format_time(NOW - 9))
CONTENTS = {
    "its pod has not been ready yet": (LINE, "pv", (pending("z"),), EMPTY),
    "its pod was deleted without having been ready": (RELEASED, "pv", (), EMPTY),
    "its pod is gone, and was not seen to terminate": (LINE, "pv", (), UNKNOWN),
    "its pod is gone, and it never had a volume": (LINE, "", (), EMPTY),
    "its pod has been ready": (LINE, "pv", (a_pod("z"),), DATA),
    "it was unknown before": (msgspec.structs.replace(RELEASED, content=UNKNOWN), "pv", (), UNKNOWN),
}


@pytest.mark.parametrize("row", CONTENTS)
def test_claim_counts_as_empty_only_if_no_pod_can_have_been_ready_with_it(row):
    line, volume, pods, want = CONTENTS[row]
    cluster = a_web(StatefulClusterStatus(claims=(line,)))
    assert find_contents(cluster, pods, (a_claim("z", volume=volume),)) == {"z": want}


def test_claims_with_data_are_adopted_before_those_of_unknown_content_and_empty_ones():
    contents = {"empty": EMPTY, "unknown": UNKNOWN}
    freed = {"empty": NOW, "unknown": NOW - 5, "data": NOW - 900}
    found = claims.free_groups(seen(free=("empty", "unknown", "data"), contents=contents, freed=freed))
    assert [group.name for group in found] == ["data", "unknown", "empty"]


def test_claims_are_released_when_their_pod_begins_to_terminate():
    cluster, known = a_web(), (a_claim("a", cluster="web"), a_claim("b", cluster="web"))
    pods = (a_pod("a", owner_uid="me"), leaving("b", owner_uid="me"))
    observed = look(*pods, cluster=cluster, known=known)
    observed = dataclasses.replace(observed, freed={"b": NOW - 5})
    lines = {line.group: line for line in ledger(cluster, observed, Records((), (), ()))}
    assert [lines[name].released for name in "ab"] == ["", format_time(NOW - 5)]
    assert lines["b"].state is ClaimState.IN_USE


LISTED = StatefulClusterStatus(claims=(Claim("data-web-z", ClaimState.FREE, group="z", template="data"),))
UNLABELLED = {
    "the status lists it": (LISTED, "data-web-z", ("", "", ""), True),
    "it was created for a group": (None, "data-web-z", ("", "z", "data"), True),
    "it has no labels and is not known": (None, "data-web-z", ("", "", ""), False),
    "it has another name": (None, "data-web-y", ("", "z", "data"), False),
    "it belongs to another cluster": (LISTED, "data-web-z", ("db", "z", "data"), False),
}


@pytest.mark.parametrize("row", UNLABELLED)
def test_claim_that_lost_its_labels_is_recognized(row):
    status, name, (owner, group, template), want = UNLABELLED[row]
    key = ObjectKey("shop", name)
    claim = msgspec.structs.replace(a_claim("z"), key=key, cluster=owner, group=group, template=template)
    found = find_unlabelled(a_web(status), (claim,))
    assert [(each.cluster, each.group, each.template) for each in found] == [("web", "z", "data")] * want


def test_claims_that_replicas_use_or_the_status_lists_are_missing_if_the_cache_lacks_them():
    known = [a_claim("a")]
    missing = missing_claims(a_web(LISTED), (a_pod("a"), a_pod("b"), a_pod("c", group="")), known)
    assert missing == ["data-web-b", "data-web-z"]


@pytest.mark.parametrize(
    ("amount", "replicas", "want"),
    [
        (1, 5, 1),
        (3, 5, 3),
        ("20%", 5, 1),
        ("50%", 5, 2),
        ("1%", 5, 1),
        ("100%", 4, 4),
        (0, 5, 1),
        ("junk", 5, 1),
    ],
)
def test_max_unavailable_is_resolved_rounded_down_and_at_least_one(amount, replicas, want):
    assert resolve_amount(amount, replicas) == want


def test_spec_is_converted_to_the_desired_state():
    cluster = a_web(
        replicas=4, podManagementPolicy="Parallel", minReadySeconds=3, claims=("data", "log"),
        updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2, "maxUnavailable": "50%"}},
        persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete", "whenDeleted": "Retain"},
    )  # fmt: skip
    asked = desired_state(cluster)
    assert (asked.replicas, asked.parallel, asked.on_delete, asked.min_ready) == (4, True, False, 3.0)
    assert (asked.partition, asked.max_unavailable, asked.grace) == (2, 2, 30.0)
    assert (asked.templates, asked.sizes) == (("data", "log"), {"data": "1Mi", "log": "1Mi"})
    assert (asked.delete_when_scaled, asked.delete_with_cluster, asked.adopts_claims) == (True, False, True)


def test_recorded_revision_that_is_gone_is_ignored():
    assert look(cluster=a_web(StatefulClusterStatus(current_revision="web-gone"))).current_revision == NEW
    assert seen().current_revision == NEW
