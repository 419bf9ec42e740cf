"""Boards and alerts: each alert has a runbook, each query is about what a process shows."""

import json
import re
from pathlib import Path

import pytest

from kit.manifests.promql import (
    DASHBOARDS,
    all_queries,
    dashboard_queries,
    labels,
    metrics,
    substitute_variables,
)
from quintet.manifests.helm.chart import CHART, chart
from quintet.manifests.monitoring import ALERTS, GROUPS, OURS, eventing_monitor, prometheus_rule
from quintet.manifests.operator import operator_process

ROOT = Path(__file__).parents[3]
OPERATIONS = (ROOT / "docs/operations.md").read_text()


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_has_runbook_section(alert):
    sections = re.split(r"^#+ ", OPERATIONS, flags=re.MULTILINE)
    (section,) = [each for each in sections if each.startswith(f"{alert.name}\n")]
    assert len(section.splitlines()) > 2, "there is nothing in it"
    assert alert.rule()["annotations"]["runbook_url"].endswith(f"operations.md#{alert.name.lower()}")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_alert_summary_uses_labels_of_its_result(alert):
    told = set(re.findall(r"\$labels\.(\w+)", alert.summary))
    grouped = {
        word for group in re.findall(r"\bby \(([^)]*)\)", alert.expression) for word in group.split(", ")
    }
    assert told <= grouped, f"{told - grouped} are not labels of the result"
    assert alert.severity in ("critical", "warning")


def test_controller_alerts_select_only_our_processes():
    for name in ("quintet-processes", "quintet-controllers", "quintet-webhooks"):
        for alert in GROUPS[name]:
            selectors = re.findall(r"(?:\w+)(\{[^}]*\})", alert.expression)
            assert selectors, alert
            assert all(OURS in each for each in selectors), alert
            assert len(selectors) == len(re.findall(r"[a-z]+_[a-z_]+(?=\{)|up(?=\{)", alert.expression)), (
                alert
            )


def test_alert_names_are_unique_and_match_runbook_sections():
    names = [alert.name for alert in ALERTS]
    assert len(set(names)) == len(names)
    assert set(re.findall(r"^#+ (Quintet[A-Z]\w+)$", OPERATIONS, flags=re.MULTILINE)) == set(names)


def test_chart_creates_alerts_and_monitors_only_when_enabled():
    from quintet.components import COMPONENTS

    made = chart(tuple(COMPONENTS.values()))
    for name, value, count in (
        ("servicemonitor.yaml", "serviceMonitor", 2),
        ("prometheusrule.yaml", "prometheusRule", 1),
    ):
        text = made[CHART / "templates" / name]
        assert text.count("\nkind: ") == text.count(f"{{{{- if .Values.{value}.enabled }}}}") == count
    assert "{{ $labels" not in text, "Helm would try to fill that in"


def test_monitoring_objects_are_in_operator_namespace():
    process = operator_process()
    for body in (prometheus_rule(process), eventing_monitor(process)):
        assert body["apiVersion"] == "monitoring.coreos.com/v1"
        assert body["metadata"]["namespace"] == process.namespace


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboard_panels_do_not_overlap(path):
    board = json.loads(path.read_text())
    taken: dict[tuple[int, int], str] = {}
    for panel in board["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert x < 24, panel["title"]
                assert (x, y) not in taken, f"{panel['title']} lies on {taken[x, y]}"
                taken[x, y] = panel["title"]
    identities = [panel["id"] for panel in board["panels"]]
    assert len(set(identities)) == len(identities)


def test_dashboards_have_unique_ids():
    identities = [json.loads(path.read_text())["uid"] for path in DASHBOARDS]
    assert len(set(identities)) == len(identities) == 2


def test_every_runtime_metric_is_on_controllers_dashboard():
    from prometheus_client.metrics import MetricWrapperBase

    from quintet.observe import metrics as runtime

    (board,) = [path for path in DASHBOARDS if path.stem == "controllers"]
    asked = " ".join(query for _, query in dashboard_queries(board))
    families = [each._name for each in vars(runtime).values() if isinstance(each, MetricWrapperBase)]
    known = {name for name in families if name != "quintet_discovery_requests"}
    assert {name for name in known if name not in asked} == set()


def test_metric_names_and_labels_are_parsed_from_queries():
    query = 'sum by (le, webhook) (rate(a_total{job=~"x",code!~"2.."}[5m])) / b_seconds > 0'
    assert metrics(query) == {"a_total", "b_seconds"}
    assert labels(query) == {"le", "webhook", "job", "code"}
    joined = 'min_over_time(a_total{job="x"}[5m]) and on (instance) (b_status == 1)'
    assert metrics(joined) == {"a_total", "b_status"}
    assert labels(joined) == {"job", "instance"}
    assert substitute_variables('rate(a{b="$c"}[$__rate_interval])') == 'rate(a{b="x"}[5m])'
    assert metrics('label_values(a_total{job=~"$job"}, controller)') == {"a_total"}


@pytest.mark.parametrize(("title", "query"), [pytest.param(*each, id=each[0]) for each in all_queries()])
def test_brackets_in_queries_are_balanced(title, query):
    for opening, closing in ("()", "[]", "{}"):
        assert query.count(opening) == query.count(closing), f"{title}: {query}"
    assert metrics(query), f"{title}: {query} asks for nothing"
