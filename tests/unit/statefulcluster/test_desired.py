"""The pods, claims and revisions that are sent, by value."""

from typing import Any

import msgspec

from kit.kinds.statefulclusters import a_claim_template, a_cluster
from quintet.apis.meta import ObjectKey
from quintet.apis.statefulcluster import Draw, StatefulCluster
from quintet.controllers.statefulcluster.decide import desired, revisions
from quintet.controllers.statefulcluster.decide.observed import Pod, Revision

DRAW = Draw("web-b7x2", "k4m9")


def a_web(**spec: Any) -> StatefulCluster:
    body = a_cluster(**spec)
    body["metadata"] |= {"namespace": "shop", "uid": "u-1", "generation": 1, "resourceVersion": "5"}
    return msgspec.convert(body, StatefulCluster)


def the_pod(**spec: Any) -> dict[str, Any]:
    cluster = a_web(**spec)
    return desired.pod(cluster, DRAW, "web-rev", cluster.spec.template)


def test_pod_is_the_template_with_name_and_labels():
    pod = the_pod()
    assert pod["metadata"] == {
        "name": "web-b7x2",
        "namespace": "shop",
        "labels": {
            "app": "web",
            "tier": "back",
            "enge.me/cluster": "web",
            "enge.me/replica": "web-b7x2",
            "enge.me/claim-group": "k4m9",
            "controller-revision-hash": "web-rev",
        },
        "annotations": {"note": "kept"},
        "ownerReferences": [desired.owner(a_web())],
    }
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-b7x2", "web")
    assert pod["spec"]["containers"] == [{"name": "main", "image": "web:1"}]


def test_claims_are_added_to_the_volumes():
    assert the_pod(claims=("data", "log"))["spec"]["volumes"] == [
        {"name": "scratch", "emptyDir": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-k4m9"}},
        {"name": "log", "persistentVolumeClaim": {"claimName": "log-web-k4m9"}},
    ]


def test_claim_replaces_a_volume_of_the_same_name():
    assert the_pod(claims=("scratch",))["spec"]["volumes"] == [
        {"name": "scratch", "persistentVolumeClaim": {"claimName": "scratch-web-k4m9"}}
    ]


def test_pod_without_claim_templates_has_the_volumes_of_the_template():
    cluster = a_web(claims=())
    pod = desired.pod(cluster, Draw("web-b7x2"), "web-rev", cluster.spec.template)
    assert pod["spec"]["volumes"] == [{"name": "scratch", "emptyDir": {}}]
    assert "enge.me/claim-group" not in pod["metadata"]["labels"]


def test_template_is_not_modified():
    cluster = a_web()
    before = msgspec.json.encode(cluster.spec.template)
    desired.pod(cluster, DRAW, "web-rev", cluster.spec.template)
    assert msgspec.json.encode(cluster.spec.template) == before


def test_claim_is_its_template_with_labels():
    template = a_claim_template("data")
    template["metadata"] |= {"labels": {"backup": "daily"}, "annotations": {"note": "mine"}}
    claim = desired.claim(a_web(), template, "k4m9")
    assert claim["metadata"] == {
        "name": "data-web-k4m9",
        "namespace": "shop",
        "labels": {
            "backup": "daily",
            "app": "web",
            "enge.me/cluster": "web",
            "enge.me/claim-group": "k4m9",
            "enge.me/claim-template": "data",
        },
        "annotations": {"note": "mine"},
    }
    assert claim["spec"] == template["spec"]


def test_claim_has_owner_reference_only_if_deleted_with_the_cluster():
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    cluster = a_web(persistentVolumeClaimRetentionPolicy=policy)
    claim = desired.claim(cluster, a_claim_template("data"), "k4m9")
    (owner,) = claim["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == ("u-1", False)


def a_revision(name: str, number: int, **spec: Any) -> Revision:
    digest = desired.digest(desired.revision_data(a_web(**spec)))
    return Revision(ObjectKey("shop", name), number=number, digest=digest)


class TestRevisions:
    def test_revision_depends_only_on_the_template(self):
        known = [a_revision("web-1", 1)]
        assert revisions.find(a_web(replicas=7), known) == known[0]
        assert revisions.find(a_web(image="web:2"), known) is None

    def test_newest_of_equal_revisions_is_used(self):
        known = [a_revision("web-1", 1), a_revision("web-2", 3)]
        found = revisions.find(a_web(), known)
        assert found is not None
        assert found.name == "web-2"

    def test_collision_changes_the_revision_name(self):
        names = {revisions.name_for(a_web(), collisions) for collisions in range(5)}
        assert len(names) == 5
        assert all(len(name) == len("web-") + 10 for name in names)

    def test_oldest_unused_revisions_beyond_the_limit_are_deleted(self):
        known = [a_revision(f"web-{number}", number) for number in range(1, 6)]
        pods = [Pod(ObjectKey("shop", "web-x"), revision="web-1")]
        forgotten = revisions.to_forget(known, pods, ("web-5",), 1)
        assert [revision.name for revision in forgotten] == ["web-2", "web-3"]

    def test_negative_limit_keeps_all_revisions(self):
        assert revisions.to_forget([a_revision("web-1", 1), a_revision("web-2", 2)], (), (), -1) == []

    def test_revision_is_stored_with_the_escapes_of_the_api_server(self):
        template = {"spec": {"containers": [{"name": "a", "args": ["<&> \u2028 ü"]}]}}
        data = bytes(desired.escape(template))
        assert b'"\\u003c\\u0026\\u003e \\u2028 ' in data
        assert msgspec.json.decode(data) == template

    def test_revisions_in_use_are_kept_whatever_the_limit(self):
        known = [a_revision("web-1", 1), a_revision("web-2", 2)]
        pods = [Pod(ObjectKey("shop", "web-x"), revision="web-1")]
        assert revisions.to_forget(known, pods, ("web-2",), 0) == []
