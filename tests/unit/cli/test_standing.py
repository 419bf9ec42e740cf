"""How an object stands, from its conditions and columns alone."""

from datetime import UTC, datetime

import pytest

from quintet.apis.casconfig import CASCONFIG
from quintet.apis.checkup import CHECKUP
from quintet.apis.jsonserver import JSONSERVER
from quintet.apis.statefulcluster import STATEFULCLUSTER
from quintet.apis.suite import QUINTET
from quintet.cli.standing import Mark, at, mark, remarks, standing
from quintet.cli.status import document, lines, table
from quintet.cli.tables import age, aligned, one_line

NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)


def a_condition(type, status="True", reason="Because", message="it is so", since="2026-01-01T00:05:00Z"):
    return {"type": type, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def an_object(*conditions, generation=1, observed=1, status=None, **metadata):
    meta = {"name": "app-books", "namespace": "shop", "generation": generation}
    meta |= {"creationTimestamp": "2026-01-01T00:00:00Z", **metadata}
    body = {"observedGeneration": observed, "conditions": list(conditions), **(status or {})}
    return {"metadata": meta, "status": body}


@pytest.mark.parametrize(
    ("kind", "headline"),
    [(JSONSERVER, "Ready"), (CHECKUP, "Succeeded"), (QUINTET, "Available"), (CASCONFIG, "Ready")],
    ids=lambda each: each if isinstance(each, str) else each.resource.kind,
)
def test_one_condition_sums_up_the_others(kind, headline):
    found = standing(kind, an_object(a_condition("Other"), a_condition(headline, "False", "Not", "not yet")))
    assert (found.ready, found.reason, found.message) == ("False", "Not", "not yet")
    assert found.verdict == f"not {headline.lower()}"


def test_an_object_without_a_status_is_not_yet_ready():
    found = standing(JSONSERVER, {"metadata": {"name": "app-books", "generation": 1}})
    assert (found.ready, found.reason, found.current) == ("Unknown", "NoStatus", False)
    assert found.verdict == "not yet ready"
    assert remarks(found) == ["the controller has not seen the last change (generation 1, seen 0)"]


@pytest.mark.parametrize(
    ("type", "status", "want"),
    [
        ("Ready", "True", Mark.GOOD),
        ("Ready", "False", Mark.BAD),
        ("Ready", "Unknown", Mark.OPEN),
        ("Backend Ready", "False", Mark.BAD),
        ("Degraded", "True", Mark.BAD),
        ("Degraded", "False", Mark.GOOD),
        ("Failed", "Unknown", Mark.OPEN),
        ("Progressing", "True", Mark.NEUTRAL),
        ("Running", "False", Mark.NEUTRAL),
    ],
)
def test_what_to_think_of_a_condition_depends_on_what_it_tells(type, status, want):
    found = standing(JSONSERVER, an_object(a_condition(type, status)))
    assert mark(found.conditions[0]) is want


@pytest.mark.parametrize(
    ("kind", "written", "want"),
    [
        (JSONSERVER, "Synced Ready Verified", "Synced Ready Verified"),
        (STATEFULCLUSTER, "Ready Progressing Degraded Blocked", "Degraded Blocked Progressing Ready"),
        (CASCONFIG, "Ready Applied RolledBack Conflicted", "RolledBack Conflicted Applied Ready"),
        (CHECKUP, "Succeeded Failed Running", "Failed Running Succeeded"),
        (QUINTET, "Available Progressing Degraded", "Degraded Progressing Available"),
    ],
    ids=lambda each: each.resource.kind if hasattr(each, "resource") else None,
)
def test_conditions_stand_in_the_order_in_which_they_depend_on_each_other(kind, written, want):
    found = standing(kind, an_object(*map(a_condition, written.split())))
    assert " ".join(each.type for each in found.conditions) == want


def test_facts_are_the_columns_that_are_no_condition_no_message_and_no_date():
    status = {"state": "Synced", "replicas": 2, "url": "http://x", "message": "Synced successfully!"}
    found = standing(JSONSERVER, an_object(a_condition("Ready"), status=status))
    assert found.facts == (("State", "Synced"), ("Replicas", "2"), ("URL", "http://x"))
    assert standing(CHECKUP, an_object(status={"verdict": "Passed"})).facts == (("Verdict", "Passed"),)


def test_a_path_that_leads_nowhere_gives_nothing():
    obj = an_object(a_condition("Ready", "False"))
    assert at(obj, '.status.conditions[?(@.type=="Ready")].status') == "False"
    assert at(obj, '.status.conditions[?(@.type=="Other")].status') is None
    assert at(obj, ".status.backend.name") is None
    assert at({"status": "text"}, ".status.backend.name") is None


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        ({}, "it is suspended: its controller leaves it alone until `quintet resume`"),
        ({"deletionTimestamp": "2026-01-01T00:09:00Z"}, "it is being deleted"),
    ],
    ids=["suspended", "deleted while it is suspended"],
)
def test_suspension_and_deletion_are_remarked(metadata, want):
    obj = an_object(a_condition("Ready"), annotations={"quintet.dev/suspended": "true"}, **metadata)
    assert remarks(standing(JSONSERVER, obj)) == [want]


def test_a_list_has_a_row_for_each_and_namespaces_only_if_there_are_many():
    found = standing(JSONSERVER, an_object(a_condition("Ready", "False", "RollingOut", "0 of 1\nserve")))
    assert aligned(table([found], NOW)) == [
        "NAME                  READY  REASON      AGE  MESSAGE",
        "jsonserver/app-books  False  RollingOut  10m  0 of 1 serve",
    ]
    assert table([found], NOW, namespaces=True)[1][0] == "shop"


def test_a_wide_list_has_the_facts_too():
    found = standing(JSONSERVER, an_object(a_condition("Ready"), status={"state": "Synced", "replicas": 2}))
    head, row = table([found], NOW, wide=True)
    assert dict(zip(head, row, strict=True))["FACTS"] == "State=Synced, Replicas=2"


def test_one_object_is_told_in_full_and_without_a_clock_nothing_changes_by_itself():
    found = standing(JSONSERVER, an_object(a_condition("Ready"), observed=0, status={"state": "Synced"}))
    assert lines(found, NOW) == [
        "JsonServer shop/app-books: ready (Because)",
        "  the controller has not seen the last change (generation 1, seen 0)",
        "  State  Synced",
        "  Age    10m",
        "conditions",
        "  ok  Ready  True Because  it is so (for 5m)",
    ]
    assert lines(found, None)[-1] == "  ok  Ready  True Because  it is so"


def test_programs_get_everything():
    found = document(
        standing(JSONSERVER, an_object(a_condition("Ready", "False"), status={"state": "Error"}))
    )
    assert found["facts"] == {"State": "Error"}
    assert found["conditions"][0]["mark"] == "wrong"
    assert found["current"] is True


@pytest.mark.parametrize(
    ("since", "want"),
    [
        ("2026-01-01T00:09:01Z", "59s"),
        ("2026-01-01T00:08:01Z", "119s"),
        ("2026-01-01T00:08:00Z", "2m"),
        ("2025-12-31T21:10:00Z", "3h"),
        ("2025-12-01T00:00:00Z", "31d"),
        ("2026-01-01T01:00:00Z", "0s"),
        ("2026-01-01T00:09:50.123456Z", "9s"),
        ("nonsense", "-"),
        ("", "-"),
        (None, "-"),
    ],
)
def test_an_age_is_said_as_kubectl_says_it(since, want):
    assert age(since, NOW) == want


def test_lines_are_cut_where_a_screen_ends_and_whole_without_one():
    assert aligned([("a", "b c d")], width=4) == ["a  …"]
    assert aligned([("a", "b c d")]) == ["a  b c d"]
    assert aligned([]) == []
    assert one_line("a\n  b\tc ") == "a b c"
