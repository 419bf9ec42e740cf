"""Who belongs to whom, and how each stands."""

import pytest

from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import ObjectMeta, OwnerReference, Resource
from quintet.apis.subscription import SUBSCRIPTIONS
from quintet.cli.family import Family, Member, assembled, by_owner, candidates, claims_of
from quintet.cli.standing import Mark
from quintet.cli.states import state
from quintet.cli.tree import LINES, drawn, remarks, state_of, targets

PODS = Resource("", "v1", "Pod", "pods")
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")
JOBS = Resource("batch", "v1", "Job", "jobs")
CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
NODES = Resource("", "v1", "Node", "nodes", namespaced=False)
EVENTS = Resource("", "v1", "Event", "events")


def meta(name, *owners):
    references = tuple(OwnerReference("v1", "X", uid, uid) for uid in owners)
    return ObjectMeta(name=name, namespace="shop", uid=name, owner_references=references)


def test_a_family_is_put_together_by_the_uids_of_owners():
    found = [
        (PODS, meta("pod", "deployment")),
        (DEPLOYMENTS, meta("deployment", "root")),
        (PODS, meta("other", "x")),
    ]
    root = assembled(Member(JSONSERVERS, meta("root")), by_owner(found))
    assert [each.meta.name for each in root.all()] == ["root", "deployment", "pod"]


def test_owners_in_a_circle_are_not_followed_forever():
    found = [(PODS, meta("a", "b", "root")), (PODS, meta("b", "a"))]
    root = assembled(Member(JSONSERVERS, meta("root")), by_owner(found))
    assert [each.meta.name for each in root.all()] == ["root", "a", "b"]


def test_an_object_with_two_owners_is_with_both():
    found = [(PODS, meta("a", "root")), (PODS, meta("b", "root")), (PODS, meta("c", "a", "b"))]
    root = assembled(Member(JSONSERVERS, meta("root")), by_owner(found))
    assert [each.meta.name for each in root.all()] == ["root", "a", "c", "b", "c"]


def test_candidates_are_each_type_once_and_never_events():
    older = Resource("apps", "v1beta1", "Deployment", "deployments")
    served = [PODS, DEPLOYMENTS, older, EVENTS, NODES]
    assert candidates(served, JSONSERVERS) == [PODS, DEPLOYMENTS]
    assert candidates(served, NODES) == [PODS, DEPLOYMENTS, NODES]


def test_a_pod_names_the_claims_that_it_uses():
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
        (PODS, {"phase": "Running", "conditions": READY}, ("Running", Mark.GOOD, "")),
        (PODS, {"phase": "Running"}, ("Running, not ready", Mark.OPEN, "")),
        (
            PODS,
            {"phase": "Pending", "containerStatuses": [waiting("ContainerCreating")]},
            ("Pending", Mark.OPEN, ""),
        ),
        (
            PODS,
            {"phase": "Pending", "containerStatuses": [waiting("ErrImagePull", "no such image")]},
            ("Pending, ErrImagePull", Mark.BAD, "container app: no such image"),
        ),
        (
            PODS,
            {"phase": "Pending", "conditions": UNSCHEDULED},
            ("Pending, Unschedulable", Mark.BAD, "no nodes"),
        ),
        (
            PODS,
            {"phase": "Failed", "containerStatuses": ENDED},
            ("Failed", Mark.BAD, "container app ended with exit code 3"),
        ),
        (PODS, {"phase": "Succeeded"}, ("Succeeded", Mark.GOOD, "")),
        (PODS, {}, ("Pending", Mark.OPEN, "")),
        (DEPLOYMENTS, {"readyReplicas": 2}, ("2/2", Mark.GOOD, "")),
        (DEPLOYMENTS, {}, ("0/2", Mark.OPEN, "")),
        (
            DEPLOYMENTS,
            {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "quota"}]},
            ("0/2", Mark.BAD, "quota"),
        ),
        (JOBS, {"active": 1}, ("1 active", Mark.OPEN, "")),
        (JOBS, {"conditions": [{"type": "Complete", "status": "True"}]}, ("Complete", Mark.GOOD, "")),
        (
            JOBS,
            {
                "conditions": [
                    {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "late"}
                ]
            },
            ("Failed, DeadlineExceeded", Mark.BAD, "late"),
        ),
        (CLAIMS, {"phase": "Bound"}, ("Bound", Mark.GOOD, "")),
        (CLAIMS, {"phase": "Lost"}, ("Lost", Mark.BAD, "its volume is gone")),
        (NODES, {}, ("", Mark.NEUTRAL, "")),
    ],
)
def test_a_child_stands_as_its_status_says(resource, status, want):
    assert tuple(state(resource, {"spec": {"replicas": 2}, "status": status})) == want


def test_what_is_being_deleted_is_said_to_be():
    body = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Bound"}}
    assert state(CLAIMS, body).word == "Bound, terminating"


def test_targets_of_a_config_come_from_its_status_and_are_applied_unless_it_says_otherwise():
    failed = {
        "kind": "apps/v1/Deployment",
        "name": "b",
        "state": "Failed",
        "reason": "Forbidden",
        "message": "no",
    }
    found = targets(
        {"status": {"targets": [{"kind": "v1/Service", "name": "a", "namespace": "shop"}, failed]}}
    )
    assert [(each.resource.group, each.resource.version, each.resource.kind) for each in found] == [
        ("", "v1", "Service"),
        ("apps", "v1", "Deployment"),
    ]
    assert [tuple(map(str, state_of(each))) for each in found] == [
        ("Applied", "-", ""),
        ("Failed, Forbidden", "wrong", "no"),
    ]


def test_a_tree_is_drawn_with_the_state_of_each_and_of_ours_by_their_conditions():
    condition = {"type": "Ready", "status": "False", "reason": "SinkNotFound", "message": "no Service"}
    subscription = {"metadata": {"name": "orders"}, "status": {"conditions": [condition]}}
    pod = Member(PODS, meta("pod"), {"status": {"phase": "Running", "conditions": READY}})
    deployment = Member(DEPLOYMENTS, meta("d"), {"spec": {"replicas": 1}}, children=(pod,))
    other = Member(SUBSCRIPTIONS, meta("orders"), subscription, "uses it")
    root = Member(JSONSERVERS, meta("root"), children=(deployment, other))
    assert list(drawn(root, LINES)) == [
        "JsonServer root",
        "├── Deployment d  0/1",
        "│   └── Pod pod  Running",
        "└── Subscription orders (uses it)  not ready (SinkNotFound)",
    ]


def test_what_was_not_looked_at_is_said():
    root = Member(JSONSERVERS, meta("root"))
    assert remarks(Family(root, ("pods", "secrets"), ("x.example.com: away",))) == [
        "not looked at: x.example.com: away",
        "not looked at, because you may not list them: pods, secrets",
    ]
    assert remarks(Family(root)) == []
