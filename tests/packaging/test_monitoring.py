"""Our alerts and dashboards in Prometheus: they parse, and alerts fire when they should.

`promtool` is built from the modules of Prometheus; the series of each test are those that our processes expose.
"""

import json
import re

import pytest
import yaml

from kit.manifests.promql import DASHBOARDS, dashboard_queries, substitute_variables
from quintet.manifests.helm.chart import CHART
from quintet.manifests.installation import QUINTET
from quintet.manifests.monitoring import ALERTS, rule_groups

OURS = 'job="quintet-checkup-metrics",namespace="quintet-system"'
OF_EVENTS = 'job="orders-publisher-proxy",namespace="shop"'
SUBSCRIPTION = 'subscription_namespace="shop",subscription_name="orders"'


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rule_groups()))
    return path


def test_promtool_accepts_every_alert(tool, rules):
    done = tool("promtool")("check", "rules", "--lint=all", "--lint-fatal", str(rules))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_promtool_accepts_every_dashboard_query(tool, tmp_path, path):
    recorded = [
        {"record": f"board:panel_{number}", "expr": substitute_variables(query)}
        for number, (_, query) in enumerate(dashboard_queries(path))
    ]
    file = tmp_path / "board.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": recorded}]}))
    done = tool("promtool")("check", "rules", "--lint=none", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


def _leads(pod: str = "", value: int = 1) -> dict[str, str]:
    where = f",instance='{pod}:8081'" if pod else ""
    return {f"leader_election_master_status{{{OURS},name='quintet-checkup'{where}}}": f"{value}x60"}


def _queue(pod: str, depth: int) -> dict[str, str]:
    """Return series of a queue that is not processed."""
    labels = f"{OURS},controller='checkup',name='checkup',instance='{pod}:8081'"
    return {
        f"workqueue_depth{{{labels}}}": f"{depth}x60",
        f"workqueue_work_duration_seconds_count{{{labels}}}": "7x60",
    }


# Alert → series per minute, the minute to check, and the alert's labels; None: it must not fire.
CASES = {
    "no pod responds": (
        "QuintetProcessDown", {f"up{{{OURS},pod='a'}}": "0x30", f"up{{{OURS},pod='b'}}": "0x30"}, 10,
        {"job": "quintet-checkup-metrics", "namespace": "quintet-system"},
    ),
    "one of two pods responds": ("QuintetProcessDown", {f"up{{{OURS},pod='a'}}": "0x30", f"up{{{OURS},pod='b'}}": "1x30"}, 10, None),
    "a foreign process is down": ("QuintetProcessDown", {"up{job='other',namespace='x'}": "0x30"}, 10, None),
    "nobody leads": (
        "QuintetNoLeader", {f"leader_election_master_status{{{OURS},name='quintet-checkup',pod='{pod}'}}": "0x30" for pod in "ab"}, 10,
        {"name": "quintet-checkup", "namespace": "quintet-system"},
    ),
    "one of two leads": (
        "QuintetNoLeader", {f"leader_election_master_status{{{OURS},name='quintet-checkup',pod='{pod}'}}": f"{value}x30" for pod, value in (("a", 0), ("b", 1))}, 10,
        None,
    ),
    "no metrics at all": ("QuintetNotSeen", {"leader_election_master_status{job='other'}": "1x40"}, 20, {}),
    "a third of reconciliations fails": (
        "QuintetReconcileErrors",
        {f"controller_runtime_reconcile_errors_total{{{OURS},controller='checkup'}}": "0+10x60",
         f"controller_runtime_reconcile_total{{{OURS},controller='checkup',result='error'}}": "0+10x60",
         f"controller_runtime_reconcile_total{{{OURS},controller='checkup',result='success'}}": "0+20x60"}, 40,
        {"controller": "checkup", "namespace": "quintet-system"},
    ),
    "few reconciliations fail": (
        "QuintetReconcileErrors",
        {f"controller_runtime_reconcile_errors_total{{{OURS},controller='checkup'}}": "0+1x60",
         f"controller_runtime_reconcile_total{{{OURS},controller='checkup',result='success'}}": "0+20x60"}, 40,
        None,
    ),
    "objects wait and none is reconciled": (
        "QuintetQueueStuck",
        {f"workqueue_depth{{{OURS},controller='checkup',name='checkup'}}": "3x60",
         f"workqueue_work_duration_seconds_count{{{OURS},controller='checkup',name='checkup'}}": "7x60", **_leads()}, 40,
        {"controller": "checkup", "namespace": "quintet-system"},
    ),
    "objects wait while others are reconciled": (
        "QuintetQueueStuck",
        {f"workqueue_depth{{{OURS},controller='checkup',name='checkup'}}": "3x60",
         f"workqueue_work_duration_seconds_count{{{OURS},controller='checkup',name='checkup'}}": "0+5x60", **_leads()}, 40,
        None,
    ),
    "keys wait in a standby that an older version left": (
        "QuintetQueueStuck",
        {**_queue("a", 0), **_queue("b", 150), **_leads("a", 1), **_leads("b", 0)}, 40, None,
    ),
    "many keys wait in a standby that an older version left": (
        "QuintetQueueLong",
        {**_queue("a", 0), **_queue("b", 5150), **_leads("a", 1), **_leads("b", 0)}, 50, None,
    ),
    "the queue of the leader is long": (
        "QuintetQueueLong",
        {**_queue("a", 150), **_queue("b", 0), **_leads("a", 1), **_leads("b", 0)}, 50,
        {"controller": "checkup", "namespace": "quintet-system"},
    ),
    "500 keys wait for their time, so that none is counted": (
        "QuintetQueueStuck", {**_queue("a", 0), **_queue("b", 0), **_leads("a", 1), **_leads("b", 0)}, 40, None,
    ),
    "reviews fail": (
        "QuintetWebhookFailures", {f"controller_runtime_webhook_requests_total{{{OURS},webhook='/validate/x',code='500'}}": "0+3x60"}, 30,
        {"webhook": "/validate/x", "namespace": "quintet-system"},
    ),
    "reviews succeed": (
        "QuintetWebhookFailures", {f"controller_runtime_webhook_requests_total{{{OURS},webhook='/validate/x',code='200'}}": "0+3x60"}, 30, None,
    ),
    "the certificate expires today": (
        "QuintetCertificateEnds", {f"quintet_webhook_certificate_end_timestamp_seconds{{{OURS}}}": "40000x30"}, 10,
        {"job": "quintet-checkup-metrics", "namespace": "quintet-system"},
    ),
    "the certificate is valid for days": ("QuintetCertificateEnds", {f"quintet_webhook_certificate_end_timestamp_seconds{{{OURS}}}": "400000x30"}, 10, None),
    "a process has no webhooks": ("QuintetCertificateEnds", {f"quintet_webhook_certificate_end_timestamp_seconds{{{OURS}}}": "0x30"}, 10, None),
    "the proxies have no backend": (
        "QuintetPublisherNotReady", {f"eventing_epp_health{{{OF_EVENTS},pod='a'}}": "0x30"}, 10,
        {"job": "orders-publisher-proxy", "namespace": "shop"},
    ),
    "a tenth of events is rejected": (
        "QuintetPublisherRefuses",
        {f"eventing_epp_requests_total{{{OF_EVENTS},code='502'}}": "0+1x60", f"eventing_epp_requests_total{{{OF_EVENTS},code='204'}}": "0+9x60"}, 30,
        {"job": "orders-publisher-proxy", "namespace": "shop"},
    ),
    "publishers send invalid events": (
        "QuintetPublisherRefuses",
        {f"eventing_epp_requests_total{{{OF_EVENTS},code='400'}}": "0+5x60", f"eventing_epp_requests_total{{{OF_EVENTS},code='204'}}": "0+9x60"}, 30,
        None,
    ),
    "an event waits for twenty minutes": (
        "QuintetEventsWait", {f"eventing_ec_oldest_seconds{{{SUBSCRIPTION}}}": "1200x30"}, 20,
        {"subscription_namespace": "shop", "subscription_name": "orders"},
    ),
    "events wait for a minute": ("QuintetEventsWait", {f"eventing_ec_oldest_seconds{{{SUBSCRIPTION}}}": "60x30"}, 20, None),
    "events become dead letters": (
        "QuintetDeadLetters", {f"eventing_ec_dead_letters_total{{{SUBSCRIPTION}}}": "0x5 1x20"}, 10,
        {"subscription_namespace": "shop", "subscription_name": "orders"},
    ),
    "dead letters reach their limit": (
        "QuintetDeadLettersFull", {f"eventing_ec_dead_letters_storage_ratio{{{SUBSCRIPTION}}}": "0.95x30"}, 20,
        {"subscription_namespace": "shop"},
    ),
    "dead letters have room": (
        "QuintetDeadLettersFull", {f"eventing_ec_dead_letters_storage_ratio{{{SUBSCRIPTION}}}": "0.5x30"}, 20, None,
    ),
    "a Subscription is not ready": (
        "QuintetSubscriptionNotReady", {f"eventing_ec_subscription_status{{{SUBSCRIPTION}}}": "0x30"}, 20,
        {"subscription_namespace": "shop", "subscription_name": "orders"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("alert", "series", "minute", "want"), CASES.values(), ids=CASES.keys())
def test_alert_fires_exactly_when_expected(tool, rules, tmp_path, alert, series, minute, want):
    (declared,) = [each for each in ALERTS if each.name == alert]
    expected = []
    if want is not None:
        labels = dict(want) | {"severity": declared.severity}
        if alert == "QuintetNotSeen":
            labels["job"] = ""
        expected = [{"exp_labels": {name: value for name, value in labels.items() if value}}]
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": expected}],
    }
    file = tmp_path / "test.yaml"
    bare = rule_groups()
    for group in bare["groups"]:
        for rule in group["rules"]:
            # Alert texts are tested elsewhere; here only whether the alert fires and with which labels.
            del rule["annotations"]
    rules.write_text(yaml.safe_dump(bare))
    file.write_text(
        yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [case]})
    )
    done = tool("promtool")("test", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


def test_chart_alerts_equal_alert_file(helm):
    done = helm("template", "quintet", str(CHART), "--namespace", QUINTET.namespace,
                "--set", "prometheusRule.enabled=true,serviceMonitor.enabled=true")  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = [body for body in yaml.safe_load_all(done.stdout) if body]
    (rule,) = [body for body in made if body["kind"] == "PrometheusRule"]
    assert rule["spec"] == json.loads(json.dumps(rule_groups()))
    assert len([body for body in made if body["kind"] == "ServiceMonitor"]) == 2
    usual = helm("template", "quintet", str(CHART), "--namespace", QUINTET.namespace)
    assert not re.search("kind: (PrometheusRule|ServiceMonitor)", usual.stdout), "they are an option"
