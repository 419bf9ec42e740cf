"""Which changes concern a tree."""

import pytest

from quintet.apis.meta import ObjectMeta, Resource
from quintet.inspect.events import parse_event
from quintet.inspect.explanation_reader import ObjectDetails
from quintet.inspect.follow import Change, WatchTarget
from quintet.inspect.relations.follow_tree import concerns, concerns_details, watched_types
from quintet.inspect.relations.owned_objects import ObjectTree, TreeNode
from quintet.runtime.events import EVENTS

PODS = Resource("", "v1", "Pod", "pods")
SETS = Resource("apps", "v1", "ReplicaSet", "replicasets")
POD = TreeNode(PODS, ObjectMeta(name="p", uid="pod", resource_version="5"))
TREE = ObjectTree(
    TreeNode(SETS, ObjectMeta(name="s", uid="set", resource_version="3"), children=(POD,)), ("services",)
)


@pytest.mark.parametrize(
    ("uid", "version", "owner", "deleted", "want"),
    [
        ("pod", "5", "set", False, False),
        ("pod", "6", "set", False, True),
        ("pod", "5", "set", True, True),
        ("new", "7", "set", False, True),
        ("new", "7", "other", False, False),
        ("new", "7", "set", True, False),
    ],
    ids=["same version", "new version", "deleted", "new child", "unrelated", "child that was never shown"],
)
def test_change_concerns_tree_if_it_would_look_different(uid, version, owner, deleted, want):
    meta = {"uid": uid, "resourceVersion": version, "ownerReferences": [{"uid": owner}]}
    assert concerns(TREE, Change(WatchTarget(PODS), {"metadata": meta}, deleted)) is want


def test_watched_types_are_those_of_the_tree_and_of_usual_children():
    assert [each.plural for each in watched_types(TREE)] == ["replicasets", "pods", "deployments", "jobs"]


@pytest.mark.parametrize(
    ("uid", "version", "about", "deleted", "want"),
    [
        ("shown", "1", "pod", False, False),
        ("shown", "2", "pod", False, True),
        ("new", "1", "pod", False, True),
        ("new", "1", "other", False, False),
        ("shown", "1", "pod", True, False),
    ],
    ids=["shown", "counted again", "new", "about another object", "expired"],
)
def test_event_concerns_details_if_it_is_news_about_the_tree(uid, version, about, deleted, want):
    def an_event(uid, version):
        return {"metadata": {"uid": uid, "resourceVersion": version}, "regarding": {"uid": about}}

    details = ObjectDetails(None, TREE, None, (parse_event(an_event("shown", "1")),), True, ())
    change = Change(WatchTarget(EVENTS), an_event(uid, version), deleted)
    assert concerns_details(details, change) is want


def test_changed_object_of_the_tree_concerns_details():
    change = Change(WatchTarget(PODS), {"metadata": {"uid": "pod", "resourceVersion": "6"}})
    assert concerns_details(ObjectDetails(None, TREE, None, (), True, ()), change)
