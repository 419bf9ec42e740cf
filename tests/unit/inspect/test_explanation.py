"""Explanations of an object's status, Events and log prefixes."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from quintet.apis.checkup import CHECKUP
from quintet.apis.jsonserver import JSONSERVER
from quintet.components import COMPONENTS
from quintet.inspect.containers import list_logs, prefix_lines, waiting_containers
from quintet.inspect.events import event_row, parse_event, sort_by_time
from quintet.inspect.explanation import (
    MAX_EVENTS,
    Child,
    build_explanation,
    explanation_document,
    explanation_lines,
)
from quintet.inspect.logs import controller_selector
from quintet.inspect.states import ChildState
from quintet.inspect.status import Rating, read_status

ROOT = Path(__file__).parent.parent.parent.parent
NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)


def an_object(*conditions, generation=1, **metadata):
    rows = [
        dict(zip(("type", "status", "reason", "message"), each, strict=True))
        | {"lastTransitionTime": "2026-01-01T00:05:00Z"}
        for each in conditions
    ]
    meta = {"name": "app-books", "namespace": "shop", "generation": generation, **metadata}
    return {"metadata": meta, "status": {"observedGeneration": 1, "conditions": rows}}


def an_event(name="e", time="2026-01-01T00:08:00Z", **fields):
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "p", "uid": "p"}
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "eventTime": time,
        "type": "Warning",
        "reason": "BackOff",
        "note": "again\nand again",
        "regarding": about,
    } | fields


def explain(kind, obj, children=(), events=(), waits=()):
    return build_explanation(read_status(kind, obj), children, events, controller="jsonserver", waits=waits)


def test_explanation_lists_bad_conditions_and_the_next_step_of_the_first():
    found = explain(
        JSONSERVER,
        an_object(
            ("Synced", "False", "ForeignObject", "a Service is there; next: rename it"),
            ("Ready", "False", "NotSynced", "a Service is there"),
            ("Verified", "Unknown", "NotReady", "waits"),
        ),
    )
    assert [each.type for each in found.chain] == ["Synced", "Ready", "Verified"]
    assert found.steps == ("rename it", "see ForeignObject in docs/jsonserver.md#status")
    assert explanation_lines(found, NOW) == [
        "JsonServer shop/app-books: not ready (NotSynced)",
        "why",
        "  Synced is False, ForeignObject (for 5m): a Service is there",
        "  Ready is False, NotSynced (for 5m): see above",
        "  Verified is unknown: NotReady (for 5m): waits",
        "next",
        "  rename it",
        "  see ForeignObject in docs/jsonserver.md#status",
    ]


def test_explanation_of_ready_object_reports_no_problems():
    found = explain(JSONSERVER, an_object(("Ready", "True", "AllReplicasAvailable", "all")))
    assert explanation_lines(found, NOW) == [
        "JsonServer shop/app-books: ready (AllReplicasAvailable)",
        "no problems",
    ]


def test_explanation_shows_children_with_problems_and_suggests_pod_logs():
    children = [
        Child("ConfigMap", "c", ChildState()),
        Child("Deployment", "d", ChildState("1/1", Rating.GOOD)),
        Child("Pod", "p", ChildState("Running, CrashLoopBackOff", Rating.BAD, "container app: back-off")),
    ]
    found = explain(JSONSERVER, an_object(("Ready", "False", "RollingOut", "0 of 1")), children)
    assert [each.name for each in found.children] == ["p"]
    assert "  Pod p  Running, CrashLoopBackOff: container app: back-off" in explanation_lines(found, NOW)
    assert found.steps == (
        "fix Pod p: container app: back-off",
        "read the logs of its pods: `quintet logs jsonserver/app-books`",
        "wait",
        "see RollingOut in docs/jsonserver.md#status",
    )


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        ({"generation": 2}, "`quintet logs controller jsonserver`"),
        ({"annotations": {"quintet.dev/suspended": "true"}}, "`quintet resume jsonserver/app-books`"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "finalizers (example.com/x)"),
    ],
    ids=["not seen", "suspended", "being deleted"],
)
def test_explanation_has_steps_for_suspension_deletion_and_outdated_status(metadata, want):
    obj = an_object(("Ready", "True", "AllReplicasAvailable", "all"), **metadata)
    found = explain(JSONSERVER, obj, waits=("example.com/x",))
    assert any(want in step for step in found.steps), found.steps


def test_explanation_of_failed_checkup_uses_the_next_step_of_its_message():
    failure = ("ContainerFailed", "the checkup ended with exit code 1; next: read status.evidence")
    found = explain(CHECKUP, an_object(("Succeeded", "False", *failure), ("Failed", "True", *failure)))
    assert [each.type for each in found.chain] == ["Failed", "Succeeded"]
    assert found.steps[0] == "read status.evidence"


def test_explanation_shows_last_events_oldest_first():
    events = [
        parse_event(an_event(f"e{number}", f"2026-01-01T00:0{number % 10}:00Z")) for number in range(15)
    ]
    found = explain(JSONSERVER, an_object(("Ready", "True", "X", "")), events=events)
    assert len(found.events) == MAX_EVENTS
    assert [each.last for each in found.events] == sorted(each.last for each in found.events)
    assert explanation_document(found)["events"][0]["regarding"]["kind"] == "Pod"


@pytest.mark.parametrize(
    ("fields", "last", "times"),
    [
        ({}, "2m", 1),
        ({"series": {"count": 4, "lastObservedTime": "2026-01-01T00:09:30.000000Z"}}, "30s (x4)", 4),
        (
            {"eventTime": None, "deprecatedLastTimestamp": "2026-01-01T00:05:00Z", "deprecatedCount": 3},
            "5m (x3)",
            3,
        ),
        ({"eventTime": None}, "-", 1),
    ],
    ids=["new", "a series", "of an old recorder", "without a time"],
)
def test_parse_event_reads_last_time_and_count(fields, last, times):
    found = parse_event(an_event(**fields))
    assert found.count == times
    assert event_row(found, NOW) == (last, "Warning", "BackOff", "pod/p", "again and again")
    assert event_row(found, NOW, namespaces=True)[0] == "shop"


def test_sort_by_time_puts_events_without_time_first():
    events = [
        parse_event(an_event("a")),
        parse_event(an_event("b", None)),
        parse_event(an_event("c", "2026-01-01T00:01:00Z")),
    ]
    assert [each.id for each in sort_by_time(events)] == ["b", "c", "a"]


def a_pod(*statuses, **fields):
    spec = {"containers": [{"name": each["name"]} for each in statuses]}
    return {"metadata": {"name": "p", "namespace": "shop", "uid": "u"}, "spec": spec} | {
        "status": {"containerStatuses": list(statuses), **fields}
    }


def test_started_containers_have_logs_and_waiting_ones_are_named():
    pod = a_pod(
        {"name": "a", "state": {"running": {}}},
        {"name": "b", "state": {"waiting": {"reason": "ErrImagePull"}}},
        {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 2},
        initContainerStatuses=[{"name": "i", "state": {"terminated": {"exitCode": 0}}}],
    )
    found = list(list_logs(pod))
    assert [(each.container, each.restarts) for each in found] == [("i", 0), ("a", 0), ("c", 2)]
    assert list(waiting_containers(pod)) == ["p/b: ErrImagePull"]
    assert list(prefix_lines(found[1], b"one\n\xfftwo\n")) == ["[p/a] one", "[p/a] \ufffdtwo"]


@pytest.mark.parametrize("name", [*COMPONENTS, "operator"])
def test_controller_selector_matches_separate_and_combined_deployments(name):
    chosen = controller_selector(name)
    assert chosen.startswith("app.kubernetes.io/part-of=quintet,app.kubernetes.io/name in (")
    assert f"quintet-{name}" in chosen
    assert ("(quintet-operator," in chosen) is (name == "operator")
