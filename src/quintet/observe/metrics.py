"""Prometheus metrics with the names and labels of controller-runtime and client-go.

Names and labels are a public interface: Grafana dashboards for other operators work unchanged.
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
    "controller_runtime_terminal_reconcile_errors",
    "Reconciliations that failed with an error that a retry cannot fix",
    ["controller"],
)
reconcile_panics = Counter(
    "controller_runtime_reconcile_panics",
    "Reconciliations that ended in an unexpected exception",
    ["controller"],
)
reconcile_timeouts = Counter(
    "controller_runtime_reconcile_timeouts", "Reconciliations that timed out", ["controller"]
)
reconcile_seconds = Histogram(
    "controller_runtime_reconcile_time_seconds",
    "Duration of a reconciliation",
    ["controller"],
    buckets=_LATENCY_BUCKETS,
)
max_workers = Gauge(
    "controller_runtime_max_concurrent_reconciles",
    "Maximum number of workers of a controller",
    ["controller"],
)
active_workers = Gauge("controller_runtime_active_workers", "Workers that are reconciling", ["controller"])

queue_depth = Gauge("workqueue_depth", "Keys that are ready to be reconciled", ["name", "controller"])
queue_adds = Counter("workqueue_adds", "Keys added to the queue", ["name", "controller"])
queue_retries = Counter(
    "workqueue_retries", "Keys added again after a failed reconciliation", ["name", "controller"]
)
queue_wait_seconds = Histogram(
    "workqueue_queue_duration_seconds",
    "Time a key waits in the queue",
    ["name", "controller"],
    buckets=_QUEUE_BUCKETS,
)
queue_work_seconds = Histogram(
    "workqueue_work_duration_seconds",
    "Time a key is being reconciled",
    ["name", "controller"],
    buckets=_QUEUE_BUCKETS,
)
queue_unfinished_seconds = Gauge(
    "workqueue_unfinished_work_seconds",
    "Sum of the ages of reconciliations in progress",
    ["name", "controller"],
)
queue_longest_seconds = Gauge(
    "workqueue_longest_running_processor_seconds",
    "Age of the oldest reconciliation in progress",
    ["name", "controller"],
)

client_requests = Counter("rest_client_requests", "Requests to the API server", ["code", "method", "host"])
client_seconds = Histogram(
    "rest_client_request_duration_seconds", "Time to a response", ["verb", "host"], buckets=_LATENCY_BUCKETS
)

webhook_seconds = Histogram(
    "controller_runtime_webhook_latency_seconds",
    "Time to respond to an admission review",
    ["webhook"],
    buckets=_WEBHOOK_BUCKETS,
)
webhook_requests = Counter(
    "controller_runtime_webhook_requests", "Admission reviews per HTTP code", ["webhook", "code"]
)
webhook_in_flight = Gauge(
    "controller_runtime_webhook_requests_in_flight", "Admission reviews in progress", ["webhook"]
)

webhook_certificate_end = Gauge(
    "quintet_webhook_certificate_end_timestamp_seconds",
    "Expiry time of the webhook certificate; 0 if no webhooks are served",
)

leader_status = Gauge("leader_election_master_status", "1 while this process leads", ["name"])

controller_degraded = Gauge(
    "quintet_controller_degraded",
    "1 while the API server refuses a watch of the controller, for lack of a permission or a CRD",
    ["controller"],
)
identity_rejected = Gauge(
    "quintet_identity_rejected", "1 while the API server rejects the credentials of this process"
)

watch_restarts = Counter(
    "quintet_watch_restarts", "Watches that were restarted, by cause", ["resource", "cause"]
)
undecodable_objects = Counter(
    "quintet_undecodable_objects", "Objects that could not be decoded", ["resource"]
)
discovery_requests = Counter("quintet_discovery_requests", "Requests to the discovery API", ["code"])
events_dropped = Counter(
    "quintet_events_dropped", "Events dropped because too many were pending", ["controller"]
)
