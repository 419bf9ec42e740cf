"""Why an object is as it is, from what was seen; Events and log lines as people read them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from quintet.apis.checkup import CHECKUP
from quintet.apis.jsonserver import JSONSERVER
from quintet.cli.containers import marked, sources, waiting
from quintet.cli.explanation import LAST, Child, document, explanation, text
from quintet.cli.happenings import happening, in_time, row
from quintet.cli.kinds import known
from quintet.cli.logs import selector
from quintet.cli.pages import FILE, PAGES, page, read
from quintet.cli.standing import Mark, standing
from quintet.cli.states import State
from quintet.components import COMPONENTS

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


def explained(kind, obj, children=(), events=(), waits=()):
    return explanation(standing(kind, obj), children, events, controller="jsonserver", waits=waits)


def test_the_chain_has_what_is_not_as_it_should_be_and_the_next_step_of_its_first_link():
    found = explained(
        JSONSERVER,
        an_object(
            ("Synced", "False", "ForeignObject", "a Service is there; next: rename it"),
            ("Ready", "False", "NotSynced", "a Service is there"),
            ("Verified", "Unknown", "NotReady", "waits"),
        ),
    )
    assert [each.type for each in found.chain] == ["Synced", "Ready", "Verified"]
    assert found.steps == ("rename it", "read about ForeignObject in docs/jsonserver.md#status")
    assert text(found, NOW) == [
        "JsonServer shop/app-books: not ready (NotSynced)",
        "why",
        "  Synced is False, ForeignObject (for 5m): a Service is there",
        "  Ready is False, NotSynced (for 5m): see above",
        "  Verified is not known yet: NotReady (for 5m): waits",
        "next",
        "  rename it",
        "  read about ForeignObject in docs/jsonserver.md#status",
    ]


def test_of_an_object_that_is_well_nothing_is_wrong():
    found = explained(JSONSERVER, an_object(("Ready", "True", "AllReplicasAvailable", "all")))
    assert text(found, NOW) == ["JsonServer shop/app-books: ready (AllReplicasAvailable)", "nothing is wrong"]


def test_children_are_shown_only_if_they_are_in_trouble_and_failed_pods_lead_to_their_logs():
    children = [
        Child("ConfigMap", "c", State()),
        Child("Deployment", "d", State("1/1", Mark.GOOD)),
        Child("Pod", "p", State("Running, CrashLoopBackOff", Mark.BAD, "container app: back-off")),
    ]
    found = explained(JSONSERVER, an_object(("Ready", "False", "RollingOut", "0 of 1")), children)
    assert [each.name for each in found.children] == ["p"]
    assert "  Pod p  Running, CrashLoopBackOff: container app: back-off" in text(found, NOW)
    assert found.steps[-2] == "mend what keeps Pod p: container app: back-off"
    assert found.steps[-1] == "read what its pods say: `quintet logs jsonserver/app-books`"


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        ({"generation": 2}, "`quintet logs controller jsonserver`"),
        ({"annotations": {"quintet.dev/suspended": "true"}}, "`quintet resume jsonserver/app-books`"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "finalizers are done (example.com/x)"),
    ],
    ids=["not seen", "suspended", "being deleted"],
)
def test_what_stands_in_the_metadata_has_its_next_step_too(metadata, want):
    obj = an_object(("Ready", "True", "AllReplicasAvailable", "all"), **metadata)
    found = explained(JSONSERVER, obj, waits=("example.com/x",))
    assert any(want in step for step in found.steps), found.steps


def test_a_failed_checkup_is_told_with_its_own_next_step():
    failure = ("ContainerFailed", "the checkup ended with exit code 1; next: read status.evidence")
    found = explained(CHECKUP, an_object(("Succeeded", "False", *failure), ("Failed", "True", *failure)))
    assert [each.type for each in found.chain] == ["Failed", "Succeeded"]
    assert found.steps[0] == "read status.evidence"


def test_only_the_last_events_are_told_oldest_first():
    events = [happening(an_event(f"e{number}", f"2026-01-01T00:0{number % 10}:00Z")) for number in range(15)]
    found = explained(JSONSERVER, an_object(("Ready", "True", "X", "")), events=events)
    assert len(found.events) == LAST
    assert [each.last for each in found.events] == sorted(each.last for each in found.events)
    assert document(found)["events"][0]["regarding"]["kind"] == "Pod"


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
def test_an_event_says_when_last_and_how_often(fields, last, times):
    found = happening(an_event(**fields))
    assert found.times == times
    assert row(found, NOW) == (last, "Warning", "BackOff", "pod/p", "again and again")
    assert row(found, NOW, namespaces=True)[0] == "shop"


def test_events_without_a_time_come_before_the_others():
    events = [
        happening(an_event("a")),
        happening(an_event("b", None)),
        happening(an_event("c", "2026-01-01T00:01:00Z")),
    ]
    assert [each.id for each in in_time(events)] == ["b", "c", "a"]


def test_every_reason_of_the_troubleshooting_page_leads_to_a_page_that_is_there():
    found = read((ROOT / FILE).read_text())
    assert len(found) > 80
    assert found["JsonServer", "ApplyFailed"] == "docs/jsonserver.md#status"
    assert found["Quintet", "ApplyFailed"] == "docs/suite.md#conditions-and-reasons"
    assert {
        link.partition("#")[0] for link in found.values() if not (ROOT / link.partition("#")[0]).is_file()
    } == set()


def test_reasons_in_words_have_a_page_of_their_own():
    assert page("EventingBackend", "NATS server not started") == "docs/eventingbackend.md#status"


@pytest.mark.parametrize("kind", known(), ids=lambda kind: kind.resource.kind)
def test_every_kind_has_a_page_for_reasons_that_are_not_listed(kind):
    assert page(kind.resource.kind, "Unheard") == PAGES[kind.resource.kind]
    assert (ROOT / PAGES[kind.resource.kind]).is_file()


def a_pod(*statuses, **fields):
    spec = {"containers": [{"name": each["name"]} for each in statuses]}
    return {"metadata": {"name": "p", "namespace": "shop", "uid": "u"}, "spec": spec} | {
        "status": {"containerStatuses": list(statuses), **fields}
    }


def test_containers_that_have_begun_have_a_log_and_others_are_named():
    pod = a_pod(
        {"name": "a", "state": {"running": {}}},
        {"name": "b", "state": {"waiting": {"reason": "ErrImagePull"}}},
        {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 2},
        initContainerStatuses=[{"name": "i", "state": {"terminated": {"exitCode": 0}}}],
    )
    found = list(sources(pod))
    assert [(each.container, each.restarts) for each in found] == [("i", 0), ("a", 0), ("c", 2)]
    assert list(waiting(pod)) == ["p/b: ErrImagePull"]
    assert list(marked(found[1], b"one\n\xfftwo\n")) == ["[p/a] one", "[p/a] \ufffdtwo"]


@pytest.mark.parametrize("name", [*COMPONENTS, "operator"])
def test_a_controller_is_found_whether_it_runs_alone_or_not(name):
    chosen = selector((name,))
    assert chosen.startswith("app.kubernetes.io/part-of=quintet,app.kubernetes.io/name in (")
    assert f"quintet-{name}" in chosen
    assert ("(quintet-operator," in chosen) is (name == "operator")
