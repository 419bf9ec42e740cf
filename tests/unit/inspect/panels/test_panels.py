"""The tables and charts about objects of one kind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.apis.casconfig import CASCONFIGS
from quintet.apis.checkup import CHECKUPS, Verdict
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.statefulcluster import STATEFULCLUSTERS
from quintet.cli.verbs.inspect.status import panel_lines
from quintet.dashboard.charts import render_chart
from quintet.inspect.panels.checkup import MAX_CHARTS, MAX_RUNS, rate_verdict
from quintet.inspect.panels.panel import Chart, Panel, Point
from quintet.inspect.panels.reader import build_panels
from quintet.inspect.states import ChildState
from quintet.inspect.status import Rating


def a_run(number, verdict="Passed", seconds=5, **results):
    return {
        "run": number,
        "verdict": verdict,
        "reason": verdict,
        "startTime": "2026-01-01T00:00:00Z",
        "completionTime": f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z",
        "results": results,
    }


def a_pod(name, revision="r2", node="n1"):
    labels = {"enge.me/replica": name, "controller-revision-hash": revision}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": ready},
    }


def build(resource, status, pods=()):
    return {each.title: each for each in build_panels(resource, {"status": status}, pods)}


def test_runs_of_a_checkup_include_the_last_one_and_its_results():
    history = [a_run(2, "Failed", 65, latency="20"), a_run(1, latency="10")]
    status = a_run(3, seconds=125) | {"resultMap": {"latency": "30", "node": "n1"}, "history": history}
    runs = build(CHECKUPS, status)["Runs"]
    assert [(row[0], row[1], row[4]) for row in runs.rows] == [
        ("3", ChildState("Passed", Rating.GOOD), "2m5s"),
        ("2", ChildState("Failed", Rating.BAD), "1m5s"),
        ("1", ChildState("Passed", Rating.GOOD), "5s"),
    ]
    assert {each.title: [point.text for point in each.points] for each in runs.charts} == {
        "Duration": ["5s", "1m5s", "2m5s"],
        "latency": ["10", "20", "30"],
    }


def test_checkup_without_finished_run_has_no_panel():
    assert build(CHECKUPS, {"phase": "Running", "run": 1}) == {}


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_has_a_rating(verdict):
    want = {"Passed": Rating.GOOD, "Flaky": Rating.OPEN, "Cancelled": Rating.NEUTRAL}
    assert rate_verdict({"verdict": str(verdict)}) is want.get(verdict, Rating.BAD)


def test_runs_and_charts_are_limited():
    results = {f"r{number:02}": "1" for number in range(40)}
    runs = build(CHECKUPS, {"history": [a_run(number, **results) for number in range(200, 0, -1)]})["Runs"]
    assert len(runs.rows) == MAX_RUNS
    assert runs.remark == "150 earlier runs are in status.history"
    assert len(runs.charts) == MAX_CHARTS + 1


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "", "n1", "9" * 400])
def test_result_that_is_no_finite_number_has_no_chart(text):
    runs = build(CHECKUPS, {"history": [a_run(number, value=text) for number in (2, 1)]})["Runs"]
    assert [each.title for each in runs.charts] == ["Duration"]


def test_replicas_of_a_statefulcluster_have_revision_node_and_volumes():
    claims = [
        {"name": "data-a", "state": "InUse", "replica": "db-a"},
        {"name": "log-a", "state": "InUse", "replica": "db-a"},
        {"name": "data-x", "state": "Unreachable", "replica": "db-x", "nextStep": "wait for its node"},
    ]
    status = {
        "replicaNames": ["db-a", "db-b", "db-c"],
        "updateRevision": "r2",
        "claims": claims,
        "claimsNotListed": 7,
        "plan": [{"action": "DeletePod", "target": "db-b", "reason": "Update", "message": "it is old"}],
    }
    other = {"metadata": {"name": "web", "labels": {}}}
    panels = build(STATEFULCLUSTERS, status, [a_pod("db-a"), a_pod("db-b", "r1", "n2"), other])
    assert panels["Replicas"].rows == (
        ("db-a", ChildState("Running", Rating.GOOD), "r2", "n1", "data-a, log-a", ""),
        ("db-b", ChildState("Running", Rating.GOOD), "r1 (old)", "n2", "", ""),
        ("db-c", ChildState("no pod", Rating.OPEN), "", "", "", ""),
    )
    unused = panels["Claims that no replica uses"]
    assert unused.rows == (
        ("data-x", ChildState("Unreachable", Rating.BAD), "", "db-x", "wait for its node"),
    )
    assert unused.remark == "7 more claims are not listed"
    assert panels["Plan"].rows == (("DeletePod", "db-b", "Update", "it is old"),)


def test_replica_that_is_not_in_the_status_yet_is_shown():
    assert [row[0] for row in build(STATEFULCLUSTERS, {}, [a_pod("db-z")])["Replicas"].rows] == ["db-z"]


def test_replicas_whose_pods_the_user_may_not_list_have_no_state():
    panel = build(STATEFULCLUSTERS, {"replicaNames": ["db-a"]}, None)["Replicas"]
    assert panel.rows == (("db-a", ChildState(), "", "", "", ""),)
    assert panel.remark == "you have no permission to list their pods"


def test_targets_of_a_casconfig_have_state_and_policies():
    target = {"kind": "apps/v1/Deployment", "namespace": "shop", "name": "a", "policy": "all"}
    status = {
        "targets": [target | {"state": "Failed", "reason": "Forbidden", "message": "no"}],
        "targetsNotListed": 2,
        "plan": [{"target": "Deployment shop/a", "diff": "+ x"}],
    }
    panels = build(CASCONFIGS, status)
    (row,) = panels["Targets"].rows
    assert row == (
        "apps/v1/Deployment",
        "shop",
        "a",
        ChildState("Failed", Rating.BAD),
        "all",
        "Forbidden",
        "no",
    )
    assert panels["Targets"].remark == "2 more targets are not listed"
    assert panels["Changes that it would make"].rows == (("Deployment shop/a", "+ x"),)


def test_object_without_status_has_no_panels():
    for resource in (CHECKUPS, CASCONFIGS, STATEFULCLUSTERS, JSONSERVERS):
        assert build_panels(resource, {"metadata": {}}, ()) == ()


def test_panel_as_text_omits_columns_that_are_empty():
    panel = Panel(
        "Replicas", ("Replica", "State", "Problem"), (("a", ChildState("Running"), ""),), (), "2 more"
    )
    assert list(panel_lines([panel])) == ["replicas", "  REPLICA  STATE", "  a        Running", "  (2 more)"]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=9))
def test_bars_of_a_chart_stay_within_it(values):
    import xml.etree.ElementTree as ElementTree

    points = tuple(Point(f"<{value}>", value, str(value)) for value in values)
    figure = ElementTree.fromstring(render_chart(Chart("<b>", points)))
    bars = figure.findall("svg/rect")
    assert len(bars) == len(values)
    for bar in bars:
        top, height = float(bar.attrib["y"]), float(bar.attrib["height"])
        assert -0.02 <= top <= top + height <= 48.02


def test_higher_value_has_a_higher_bar():
    figure = render_chart(Chart("Duration", (Point("run 1", 1, "1s"), Point("run 2", 30, "30s"))))
    assert 'height="3.05"' in figure
    assert 'height="48.00"' in figure
    assert "last 30s, lowest 1s, highest 30s" in figure
