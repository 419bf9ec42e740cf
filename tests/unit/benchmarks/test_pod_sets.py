"""Both kinds of sets have the same spec, and are done under the same conditions."""

import pytest
from benchmarks.parts.statefulcluster import HEADINGS, STATEFUL_CLUSTER, STATEFUL_SET, Phase, rows
from benchmarks.pod_sets import Set, Sets, Status, _Meta


def a_set(generation: int = 2, **status: object) -> Set:
    known = {"observed_generation": 2, "replicas": 5, "ready_replicas": 5, "updated_replicas": 5}
    revisions = {"current_revision": "b", "update_revision": "b"}
    return Set(_Meta("set-0000", generation), Status(**{**known, **revisions, **status}))


def test_statefulcluster_and_statefulset_manifests_differ_only_in_kind():
    cluster, plain = (Sets(kind, "x", 3, 5).body("set-0000") for kind in (STATEFUL_CLUSTER, STATEFUL_SET))
    assert (cluster.pop("apiVersion"), plain.pop("apiVersion")) == ("enge.me/v1alpha1", "apps/v1")
    assert (cluster.pop("kind"), plain.pop("kind")) == ("StatefulCluster", "StatefulSet")
    assert cluster == plain


@pytest.mark.parametrize(
    ("each", "want_ready", "want_updated"),
    [
        (a_set(), True, True),
        (a_set(ready_replicas=4), False, False),
        (a_set(replicas=6), False, False),
        (a_set(generation=3), False, False),
        (a_set(updated_replicas=4), True, False),
        (a_set(current_revision="a"), True, False),
        (a_set(generation=1, observed_generation=1), True, False),
    ],
    ids=[
        "all is done",
        "a pod is not ready",
        "a pod too many",
        "the status is old",
        "a pod is of the old revision",
        "the update is not finished",
        "nothing was changed yet",
    ],
)
def test_set_is_done_when_status_observed_newest_generation(each, want_ready, want_updated):
    sets = Sets(STATEFUL_SET, "x", 1, 5)
    assert (sets.is_ready(each), sets.is_updated(each)) == (want_ready, want_updated)


def test_set_figures_are_per_pod():
    cpu = {"controller": 2.0, "apiserver": 10.0, "etcd": 1.0}
    phase = Phase(
        "quintet", "create", 1000, 12.0, cpu, 80.0, {"POST pods": 1000, "POST events": 500}, {}, 0.1
    )
    (row,) = rows([phase])
    assert dict(zip(HEADINGS, row, strict=True)) == {
        "contender": "quintet", "phase": "create", "s": "12.0", "CPU ms/pod": "2.00", "apiserver": "10.00",
        "etcd": "1.00", "peak MB": "80", "writes/pod": "1.50", "reads/pod": "0.00", "others": "10%",
    }  # fmt: skip
