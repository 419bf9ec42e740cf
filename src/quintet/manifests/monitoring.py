"""The alerts of Quintet as a PrometheusRule.

Each alert has a runbook: the section of the same name in docs/operations.md. Queries only select our own
processes, by the names of their metrics Services.
"""

from dataclasses import dataclass

from quintet.apis.meta import JsonObject
from quintet.manifests.process import PART_OF, ProcessManifest

RUNBOOKS = "https://quintet.dev/docs/operations.md"
API_VERSION = "monitoring.coreos.com/v1"
OURS = 'job=~"(quintet|kiagnose).*-metrics"'
CRITICAL, WARNING = "critical", "warning"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert; its summary may use the labels of the expression."""

    name: str
    expression: str
    minutes: int
    severity: str
    summary: str

    def rule(self) -> JsonObject:
        """Return the alerting rule."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": f"{self.minutes}m",
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "runbook_url": f"{RUNBOOKS}#{self.name.lower()}",
            },
        }


def _share(part: str, whole: str, by: str, more_than: float) -> str:
    return f"sum by ({by}) (rate({part})) / sum by ({by}) (rate({whole})) > {more_than:g}"


def _waiting(window: str) -> str:
    """Return a query for the minimum depth of the leader's work queue; standby replicas have no queue."""
    return (
        f"sum by (namespace, controller) (min_over_time(workqueue_depth{{{OURS}}}[{window}]) "
        f"and on (namespace, job, instance) (leader_election_master_status{{{OURS}}} == 1))"
    )


PROCESSES = (
    Alert(
        "QuintetProcessDown",
        f"sum by (namespace, job) (up{{{OURS}}}) == 0",
        5,
        CRITICAL,
        "No pod of {{ $labels.job }} responds to Prometheus.",
    ),
    Alert(
        "QuintetNotSeen",
        f"absent(leader_election_master_status{{{OURS}}})",
        15,
        WARNING,
        "Prometheus scrapes no process of Quintet.",
    ),
    Alert(
        "QuintetNoLeader",
        f"max by (namespace, name) (leader_election_master_status{{{OURS}}}) == 0",
        3,
        CRITICAL,
        "No replica of {{ $labels.name }} is the leader: nothing is reconciled.",
    ),
    Alert(
        "QuintetApiServerErrors",
        _share(
            f'rest_client_requests_total{{{OURS},code=~"5..|error"}}[10m]',
            f"rest_client_requests_total{{{OURS}}}[10m]",
            "namespace, job",
            0.05,
        ),
        15,
        WARNING,
        "{{ $value | humanizePercentage }} of the requests of {{ $labels.job }} to the API server fail.",
    ),
)
CONTROLLERS = (
    Alert(
        "QuintetReconcileErrors",
        _share(
            f"controller_runtime_reconcile_errors_total{{{OURS}}}[10m]",
            f"controller_runtime_reconcile_total{{{OURS}}}[10m]",
            "namespace, controller",
            0.2,
        ),
        15,
        WARNING,
        "{{ $value | humanizePercentage }} of the reconciliations of {{ $labels.controller }} fail.",
    ),
    Alert(
        "QuintetReconcileCrashes",
        f"sum by (namespace, controller) "
        f"(increase(controller_runtime_reconcile_panics_total{{{OURS}}}[15m])) > 0",
        0,
        WARNING,
        "A reconciliation of {{ $labels.controller }} ended with an unexpected exception.",
    ),
    Alert(
        "QuintetReconcileTimeouts",
        f"sum by (namespace, controller) "
        f"(increase(controller_runtime_reconcile_timeouts_total{{{OURS}}}[30m])) > 0",
        0,
        WARNING,
        "A reconciliation of {{ $labels.controller }} took longer than 300 s and was aborted.",
    ),
    Alert(
        "QuintetQueueStuck",
        f"{_waiting('15m')} > 0 unless "
        f"sum by (namespace, controller) (rate(workqueue_work_duration_seconds_count{{{OURS}}}[15m])) > 0",
        5,
        CRITICAL,
        "Objects are queued for {{ $labels.controller }}, but it reconciles none.",
    ),
    Alert(
        "QuintetQueueLong",
        f"{_waiting('30m')} > 100",
        0,
        WARNING,
        "For half an hour, at least {{ $value }} objects have been queued for {{ $labels.controller }}.",
    ),
    Alert(
        "QuintetUndecodableObjects",
        f"sum by (namespace, resource) (increase(quintet_undecodable_objects_total{{{OURS}}}[1h])) > 0",
        0,
        WARNING,
        "An object of {{ $labels.resource }} cannot be decoded and is not reconciled.",
    ),
)
WEBHOOKS = (
    Alert(
        "QuintetWebhookFailures",
        f"sum by (namespace, webhook) "
        f'(rate(controller_runtime_webhook_requests_total{{{OURS},code!~"2.."}}[5m])) > 0',
        10,
        WARNING,
        "{{ $labels.webhook }} fails for some requests: users cannot change their objects.",
    ),
    Alert(
        "QuintetWebhookSlow",
        f"histogram_quantile(0.99, sum by (le, namespace, webhook) "
        f"(rate(controller_runtime_webhook_latency_seconds_bucket{{{OURS}}}[5m]))) > 2",
        10,
        WARNING,
        "{{ $labels.webhook }} takes {{ $value | humanizeDuration }}; the API server times out after 5 s.",
    ),
    Alert(
        "QuintetCertificateEnds",
        f"(min by (namespace, job) (quintet_webhook_certificate_end_timestamp_seconds{{{OURS}}} > 0)) "
        "- time() < 86400",
        5,
        CRITICAL,
        "The webhook certificate of {{ $labels.job }} expires in less than a day.",
    ),
)
EVENTING = (
    Alert(
        "QuintetPublisherNotReady",
        "max by (namespace, job) (eventing_epp_health) == 0",
        5,
        CRITICAL,
        "No publisher proxy of {{ $labels.job }} in {{ $labels.namespace }} can reach its backend.",
    ),
    Alert(
        "QuintetPublisherRefuses",
        _share(
            'eventing_epp_requests_total{code=~"5.."}[5m]',
            "eventing_epp_requests_total[5m]",
            "namespace, job",
            0.05,
        ),
        10,
        WARNING,
        "{{ $value | humanizePercentage }} of the events to {{ $labels.job }} are not stored.",
    ),
    Alert(
        "QuintetDispatcherNotReady",
        "max by (namespace, job) (eventing_ec_health) == 0",
        5,
        CRITICAL,
        "No dispatcher of {{ $labels.job }} in {{ $labels.namespace }} can deliver events.",
    ),
    Alert(
        "QuintetSubscriptionNotReady",
        "max by (subscription_namespace, subscription_name) (eventing_ec_subscription_status) == 0",
        15,
        WARNING,
        "Subscription {{ $labels.subscription_namespace }}/{{ $labels.subscription_name }} is not ready.",
    ),
    Alert(
        "QuintetEventsWait",
        "max by (subscription_namespace, subscription_name) (eventing_ec_oldest_seconds) > 900",
        5,
        WARNING,
        "The oldest event of Subscription {{ $labels.subscription_namespace }}/"
        "{{ $labels.subscription_name }} waits for {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "QuintetDeadLetters",
        "sum by (subscription_namespace, subscription_name) "
        "(increase(eventing_ec_dead_letters_total[15m])) > 0",
        0,
        WARNING,
        "Events of Subscription {{ $labels.subscription_namespace }}/{{ $labels.subscription_name }} "
        "became dead letters.",
    ),
    Alert(
        "QuintetDeadLettersFull",
        "max by (subscription_namespace) (eventing_ec_dead_letters_storage_ratio) > 0.9",
        15,
        WARNING,
        "The dead letters in {{ $labels.subscription_namespace }} have reached their limit: the oldest are "
        "deleted soon.",
    ),
)
GROUPS = {
    "quintet-processes": PROCESSES,
    "quintet-controllers": CONTROLLERS,
    "quintet-webhooks": WEBHOOKS,
    "quintet-eventing": EVENTING,
}
ALERTS = tuple(alert for alerts in GROUPS.values() for alert in alerts)


def rule_groups() -> JsonObject:
    """Return all alerts as the content of a Prometheus rule file."""
    return {
        "groups": [
            {"name": name, "rules": [alert.rule() for alert in alerts]} for name, alerts in GROUPS.items()
        ]
    }


def prometheus_rule(process: ProcessManifest) -> JsonObject:
    """Return the PrometheusRule with all alerts, for the Prometheus Operator."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PrometheusRule",
        "metadata": process.metadata(),
        "spec": rule_groups(),
    }


def eventing_monitor(process: ProcessManifest) -> JsonObject:
    """Return the ServiceMonitor of publisher proxies and dispatchers in the namespaces of users."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ServiceMonitor",
        "metadata": process.metadata("quintet-eventing-data"),
        "spec": {
            "namespaceSelector": {"any": True},
            "selector": {"matchLabels": {"app.kubernetes.io/name": "eventing", PART_OF: "quintet"}},
            "endpoints": [{"port": "metrics", "path": "/metrics", "interval": "30s"}],
        },
    }
