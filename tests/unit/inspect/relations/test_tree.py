"""Trees of owned objects, and the state of each object."""

import pytest

from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import ObjectMeta, OwnerReference, Resource
from quintet.apis.subscription import SUBSCRIPTIONS
from quintet.inspect.relations.owned_objects import (
    ObjectTree,
    TreeNode,
    build_tree,
    child_types,
    claims_of,
    group_by_owner,
)
from quintet.inspect.relations.tree import (
    UNICODE_LINES,
    casconfig_targets,
    node_state,
    render_tree,
    tree_remarks,
)
from quintet.inspect.states import child_state
from quintet.inspect.status import Rating

PODS = Resource("", "v1", "Pod", "pods")
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")
JOBS = Resource("batch", "v1", "Job", "jobs")
CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
NODES = Resource("", "v1", "Node", "nodes", namespaced=False)
EVENTS = Resource("", "v1", "Event", "events")


def meta(name, *owners):
    references = tuple(OwnerReference("v1", "X", uid, uid) for uid in owners)
    return ObjectMeta(name=name, namespace="shop", uid=name, owner_references=references)


def test_build_tree_joins_objects_by_owner_uid():
    found = [
        (PODS, meta("pod", "deployment")),
        (DEPLOYMENTS, meta("deployment", "root")),
        (PODS, meta("other", "x")),
    ]
    root = build_tree(TreeNode(JSONSERVERS, meta("root")), group_by_owner(found))
    assert [each.meta.name for each in root.walk()] == ["root", "deployment", "pod"]


def test_build_tree_cuts_cycles_of_owners():
    found = [(PODS, meta("a", "b", "root")), (PODS, meta("b", "a"))]
    root = build_tree(TreeNode(JSONSERVERS, meta("root")), group_by_owner(found))
    assert [each.meta.name for each in root.walk()] == ["root", "a", "b"]


def test_build_tree_shows_object_below_both_owners():
    found = [(PODS, meta("a", "root")), (PODS, meta("b", "root")), (PODS, meta("c", "a", "b"))]
    root = build_tree(TreeNode(JSONSERVERS, meta("root")), group_by_owner(found))
    assert [each.meta.name for each in root.walk()] == ["root", "a", "c", "b", "c"]


def test_child_types_are_unique_and_without_events():
    older = Resource("apps", "v1beta1", "Deployment", "deployments")
    served = [PODS, DEPLOYMENTS, older, EVENTS, NODES]
    assert child_types(served, JSONSERVERS) == [PODS, DEPLOYMENTS]
    assert child_types(served, NODES) == [PODS, DEPLOYMENTS, NODES]


def test_claims_of_pod_come_from_its_volumes():
    volumes = [{"name": "a", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "b", "emptyDir": {}}]
    assert claims_of({"spec": {"volumes": volumes}}) == ["data"]
    assert claims_of({}) == []


def waiting(reason, message=""):
    return {"name": "app", "state": {"waiting": {"reason": reason, "message": message}}}


READY = [{"type": "Ready", "status": "True"}]
UNSCHEDULED = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no nodes"}]
ENDED = [{"name": "app", "state": {"terminated": {"exitCode": 3}}}]


@pytest.mark.parametrize(
    ("resource", "status", "want"),
    [
        (PODS, {"phase": "Running", "conditions": READY}, ("Running", Rating.GOOD, "")),
        (PODS, {"phase": "Running"}, ("Running, not ready", Rating.OPEN, "")),
        (
            PODS,
            {"phase": "Pending", "containerStatuses": [waiting("ContainerCreating")]},
            ("Pending", Rating.OPEN, ""),
        ),
        (
            PODS,
            {"phase": "Pending", "containerStatuses": [waiting("ErrImagePull", "no such image")]},
            ("Pending, ErrImagePull", Rating.BAD, "container app: no such image"),
        ),
        (
            PODS,
            {"phase": "Pending", "conditions": UNSCHEDULED},
            ("Pending, Unschedulable", Rating.BAD, "no nodes"),
        ),
        (
            PODS,
            {"phase": "Failed", "containerStatuses": ENDED},
            ("Failed", Rating.BAD, "container app ended with exit code 3"),
        ),
        (PODS, {"phase": "Succeeded"}, ("Succeeded", Rating.GOOD, "")),
        (PODS, {}, ("Pending", Rating.OPEN, "")),
        (DEPLOYMENTS, {"readyReplicas": 2}, ("2/2", Rating.GOOD, "")),
        (DEPLOYMENTS, {}, ("0/2", Rating.OPEN, "")),
        (
            DEPLOYMENTS,
            {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "quota"}]},
            ("0/2", Rating.BAD, "quota"),
        ),
        (JOBS, {"active": 1}, ("1 active", Rating.OPEN, "")),
        (JOBS, {"conditions": [{"type": "Complete", "status": "True"}]}, ("Complete", Rating.GOOD, "")),
        (
            JOBS,
            {
                "conditions": [
                    {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "late"}
                ]
            },
            ("Failed, DeadlineExceeded", Rating.BAD, "late"),
        ),
        (CLAIMS, {"phase": "Bound"}, ("Bound", Rating.GOOD, "")),
        (CLAIMS, {"phase": "Lost"}, ("Lost", Rating.BAD, "its volume no longer exists")),
        (NODES, {}, ("", Rating.NEUTRAL, "")),
    ],
)
def test_child_state_follows_the_status(resource, status, want):
    assert tuple(child_state(resource, {"spec": {"replicas": 2}, "status": status})) == want


def test_child_state_of_deleted_object_is_terminating():
    body = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Bound"}}
    assert child_state(CLAIMS, body).word == "Bound, terminating"


def test_casconfig_targets_come_from_status_and_default_to_applied():
    failed = {
        "kind": "apps/v1/Deployment",
        "name": "b",
        "state": "Failed",
        "reason": "Forbidden",
        "message": "no",
    }
    found = casconfig_targets(
        {"status": {"targets": [{"kind": "v1/Service", "name": "a", "namespace": "shop"}, failed]}}
    )
    assert [(each.resource.group, each.resource.version, each.resource.kind) for each in found] == [
        ("", "v1", "Service"),
        ("apps", "v1", "Deployment"),
    ]
    assert [tuple(map(str, node_state(each))) for each in found] == [
        ("Applied", "-", ""),
        ("Failed, Forbidden", "wrong", "no"),
    ]


def test_render_tree_shows_the_state_of_each_node():
    condition = {"type": "Ready", "status": "False", "reason": "SinkNotFound", "message": "no Service"}
    subscription = {"metadata": {"name": "orders"}, "status": {"conditions": [condition]}}
    pod = TreeNode(PODS, meta("pod"), {"status": {"phase": "Running", "conditions": READY}})
    deployment = TreeNode(DEPLOYMENTS, meta("d"), {"spec": {"replicas": 1}}, children=(pod,))
    other = TreeNode(SUBSCRIPTIONS, meta("orders"), subscription, "uses it")
    root = TreeNode(JSONSERVERS, meta("root"), children=(deployment, other))
    assert list(render_tree(root, UNICODE_LINES)) == [
        "JsonServer root",
        "├── Deployment d  0/1",
        "│   └── Pod pod  Running",
        "└── Subscription orders (uses it)  not ready (SinkNotFound)",
    ]


def test_tree_remarks_name_types_that_were_not_listed():
    root = TreeNode(JSONSERVERS, meta("root"))
    assert tree_remarks(ObjectTree(root, ("pods", "secrets"), ("x.example.com: away",))) == [
        "cannot list x.example.com: away",
        "not listed, because you have no permission: pods, secrets",
    ]
    assert tree_remarks(ObjectTree(root)) == []
