"""Prometheus metrics under the names that controller-runtime dashboards query.

The layers above set these values where the thing happens; `observe.health` serves
them. Names and labels are an interface: a Grafana board made for any other operator
works on ours unchanged.
"""

from prometheus_client import Counter, Gauge, Histogram

_LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_WEBHOOK_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_QUEUE_BUCKETS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)

reconcile_total = Counter(
    "controller_runtime_reconcile", "Reconciliations per outcome", ["controller", "result"]
)
reconcile_errors = Counter(
    "controller_runtime_reconcile_errors", "Reconciliations that failed", ["controller"]
)
terminal_errors = Counter(
    "controller_runtime_terminal_reconcile_errors", "Reconciliations that no retry can help", ["controller"]
)
reconcile_panics = Counter(
    "controller_runtime_reconcile_panics",
    "Reconciliations that ended in an unexpected exception",
    ["controller"],
)
reconcile_timeouts = Counter(
    "controller_runtime_reconcile_timeouts", "Reconciliations that ran out of time", ["controller"]
)
reconcile_seconds = Histogram(
    "controller_runtime_reconcile_time_seconds",
    "Length of a reconciliation",
    ["controller"],
    buckets=_LATENCY_BUCKETS,
)
max_workers = Gauge(
    "controller_runtime_max_concurrent_reconciles", "Workers that a controller may use", ["controller"]
)
active_workers = Gauge("controller_runtime_active_workers", "Workers that are busy", ["controller"])

queue_depth = Gauge("workqueue_depth", "Keys that could be worked on now", ["name", "controller"])
queue_adds = Counter("workqueue_adds", "Keys added", ["name", "controller"])
queue_retries = Counter("workqueue_retries", "Keys added again after a failure", ["name", "controller"])
queue_wait_seconds = Histogram(
    "workqueue_queue_duration_seconds", "Time a key waits", ["name", "controller"], buckets=_QUEUE_BUCKETS
)
queue_work_seconds = Histogram(
    "workqueue_work_duration_seconds",
    "Time a key is worked on",
    ["name", "controller"],
    buckets=_QUEUE_BUCKETS,
)
queue_unfinished_seconds = Gauge(
    "workqueue_unfinished_work_seconds", "Age of all work in progress, added up", ["name", "controller"]
)
queue_longest_seconds = Gauge(
    "workqueue_longest_running_processor_seconds",
    "Age of the oldest work in progress",
    ["name", "controller"],
)

client_requests = Counter("rest_client_requests", "Requests to the API server", ["code", "method", "host"])
client_seconds = Histogram(
    "rest_client_request_duration_seconds", "Time to an answer", ["verb", "host"], buckets=_LATENCY_BUCKETS
)

webhook_seconds = Histogram(
    "controller_runtime_webhook_latency_seconds",
    "Time to answer an admission review",
    ["webhook"],
    buckets=_WEBHOOK_BUCKETS,
)
webhook_requests = Counter(
    "controller_runtime_webhook_requests", "Admission reviews per HTTP code", ["webhook", "code"]
)
webhook_in_flight = Gauge(
    "controller_runtime_webhook_requests_in_flight", "Admission reviews being answered", ["webhook"]
)

webhook_certificate_end = Gauge(
    "quintet_webhook_certificate_end_timestamp_seconds",
    "When the certificate ends that webhooks are served with; 0 where none are served",
)

leader_status = Gauge("leader_election_master_status", "1 while this process leads", ["name"])

watch_restarts = Counter("quintet_watch_restarts", "Watches opened again, by cause", ["resource", "cause"])
undecodable_objects = Counter(
    "quintet_undecodable_objects", "Objects that did not fit their type", ["resource"]
)
discovery_requests = Counter("quintet_discovery_requests", "Requests to the discovery API", ["code"])
events_dropped = Counter("quintet_events_dropped", "Events given up because too many waited", ["controller"])
