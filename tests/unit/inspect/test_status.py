"""The status of objects, from their conditions and columns."""

from datetime import UTC, datetime

import pytest

from quintet.apis.casconfig import CASCONFIG
from quintet.apis.checkup import CHECKUP
from quintet.apis.jsonserver import JSONSERVER
from quintet.apis.statefulcluster import STATEFULCLUSTER
from quintet.apis.suite import QUINTET
from quintet.inspect.status import Rating, rate_condition, read_path, read_status, status_remarks
from quintet.inspect.status_list import status_document, status_lines, status_table
from quintet.inspect.tables import align_columns, format_age, single_line

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
def test_read_status_uses_the_summary_condition(kind, headline):
    found = read_status(
        kind, an_object(a_condition("Other"), a_condition(headline, "False", "Not", "not yet"))
    )
    assert (found.ready, found.reason, found.message) == ("False", "Not", "not yet")
    assert found.verdict == f"not {headline.lower()}"


def test_object_without_status_is_not_yet_ready():
    found = read_status(JSONSERVER, {"metadata": {"name": "app-books", "generation": 1}})
    assert (found.ready, found.reason, found.current) == ("Unknown", "NoStatus", False)
    assert found.verdict == "not yet ready"
    assert status_remarks(found) == [
        "the controller has not observed the last change (generation 1, observed 0)"
    ]


@pytest.mark.parametrize(
    ("type", "status", "want"),
    [
        ("Ready", "True", Rating.GOOD),
        ("Ready", "False", Rating.BAD),
        ("Ready", "Unknown", Rating.OPEN),
        ("Backend Ready", "False", Rating.BAD),
        ("Degraded", "True", Rating.BAD),
        ("Degraded", "False", Rating.GOOD),
        ("Failed", "Unknown", Rating.OPEN),
        ("Progressing", "True", Rating.NEUTRAL),
        ("Running", "False", Rating.NEUTRAL),
    ],
)
def test_rate_condition_depends_on_its_type(type, status, want):
    found = read_status(JSONSERVER, an_object(a_condition(type, status)))
    assert rate_condition(found.conditions[0]) is want


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
def test_conditions_are_sorted_by_dependency(kind, written, want):
    found = read_status(kind, an_object(*map(a_condition, written.split())))
    assert " ".join(each.type for each in found.conditions) == want


def test_facts_are_columns_without_conditions_messages_and_dates():
    status = {"state": "Synced", "replicas": 2, "url": "http://x", "message": "Synced successfully!"}
    found = read_status(JSONSERVER, an_object(a_condition("Ready"), status=status))
    assert found.facts == (("State", "Synced"), ("Replicas", "2"), ("URL", "http://x"))
    assert read_status(CHECKUP, an_object(status={"verdict": "Passed"})).facts == (("Verdict", "Passed"),)


def test_read_path_returns_none_for_missing_value():
    obj = an_object(a_condition("Ready", "False"))
    assert read_path(obj, '.status.conditions[?(@.type=="Ready")].status') == "False"
    assert read_path(obj, '.status.conditions[?(@.type=="Other")].status') is None
    assert read_path(obj, ".status.backend.name") is None
    assert read_path({"status": "text"}, ".status.backend.name") is None


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        ({}, "it is suspended: its controller skips it until `quintet resume`"),
        ({"deletionTimestamp": "2026-01-01T00:09:00Z"}, "it is being deleted"),
    ],
    ids=["suspended", "deleted while it is suspended"],
)
def test_status_remarks_name_suspension_and_deletion(metadata, want):
    obj = an_object(a_condition("Ready"), annotations={"quintet.dev/suspended": "true"}, **metadata)
    assert status_remarks(read_status(JSONSERVER, obj)) == [want]


def test_status_table_shows_namespaces_only_on_request():
    found = read_status(JSONSERVER, an_object(a_condition("Ready", "False", "RollingOut", "0 of 1\nserve")))
    assert align_columns(status_table([found], NOW)) == [
        "NAME                  READY  REASON      AGE  MESSAGE",
        "jsonserver/app-books  False  RollingOut  10m  0 of 1 serve",
    ]
    assert status_table([found], NOW, namespaces=True)[1][0] == "shop"


def test_wide_status_table_shows_facts():
    found = read_status(
        JSONSERVER, an_object(a_condition("Ready"), status={"state": "Synced", "replicas": 2})
    )
    head, row = status_table([found], NOW, wide=True)
    assert dict(zip(head, row, strict=True))["FACTS"] == "State=Synced, Replicas=2"


def test_status_lines_without_clock_contain_no_ages():
    found = read_status(JSONSERVER, an_object(a_condition("Ready"), observed=0, status={"state": "Synced"}))
    assert status_lines(found, NOW) == [
        "JsonServer shop/app-books: ready (Because)",
        "  the controller has not observed the last change (generation 1, observed 0)",
        "  State  Synced",
        "  Age    10m",
        "conditions",
        "  ok  Ready  True Because  it is so (for 5m)",
    ]
    assert status_lines(found, None)[-1] == "  ok  Ready  True Because  it is so"


def test_status_document_contains_everything():
    found = status_document(
        read_status(JSONSERVER, an_object(a_condition("Ready", "False"), status={"state": "Error"}))
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
def test_format_age_matches_kubectl(since, want):
    assert format_age(since, NOW) == want


def test_align_columns_truncates_to_the_terminal_width():
    assert align_columns([("a", "b c d")], width=4) == ["a  …"]
    assert align_columns([("a", "b c d")]) == ["a  b c d"]
    assert align_columns([]) == []
    assert single_line("a\n  b\tc ") == "a b c"
