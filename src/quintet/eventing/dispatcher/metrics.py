"""Metrics of deliveries, with the names that dashboards of Kyma Eventing query.

Label values are bounded: event types are those of the Subscription, codes are HTTP statuses, and the series
of a deleted Subscription are removed.
"""

from collections.abc import Sequence

from prometheus_client import Counter, Gauge, Histogram

from quintet.apis.meta import ObjectKey
from quintet.eventing.dispatcher.decide.retry_policy import DeliveryResult

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_LABELS = ["subscription_namespace", "subscription_name"]

deliveries = Counter(
    "eventing_ec_nats_delivery_per_subscription",
    "Delivery attempts by response code",
    [*_LABELS, "event_type", "response_code"],
)
dispatch_seconds = Histogram(
    "eventing_ec_nats_subscriber_dispatch_duration_seconds",
    "Response time of a sink",
    _LABELS,
    buckets=_BUCKETS,
)
dead_letters = Counter(
    "eventing_ec_dead_letters", "Events that became dead letters after the last attempt", _LABELS
)
dropped = Counter(
    "eventing_ec_dropped",
    "Events dropped after the last attempt because dead letters are not kept",
    _LABELS,
)
filtered = Counter(
    "eventing_ec_filtered", "Events that were not delivered because they do not fit the Subscription", _LABELS
)
redelivered = Counter(
    "eventing_ec_redelivered",
    "Redelivered events that the sink had already accepted; they are not sent again",
    _LABELS,
)
in_flight = Gauge("eventing_ec_in_flight", "Events in flight to a sink", _LABELS)
health = Gauge("eventing_ec_health", "1 while events can be delivered")


class DeliveryMetrics:
    """The metrics of one Subscription."""

    def __init__(self, key: ObjectKey) -> None:
        self._key = key
        self._attempts: dict[tuple[str, str], Counter] = {}
        self._seconds = dispatch_seconds.labels(*key)
        self.dead_letters = dead_letters.labels(*key)
        self.dropped = dropped.labels(*key)
        self.filtered = filtered.labels(*key)
        self.redelivered = redelivered.labels(*key)
        self.in_flight = in_flight.labels(*key)

    def count_attempt(self, event_type: str, result: DeliveryResult, seconds: float) -> None:
        """Count a delivery attempt."""
        self._seconds.observe(seconds)
        found = self._attempts.get((event_type, result.code))
        if found is None:
            found = deliveries.labels(*self._key, event_type, result.code)
            self._attempts[event_type, result.code] = found
        found.inc()

    def keep_only(self, types: Sequence[str]) -> None:
        """Remove the metrics of other event types."""
        for event_type, code in [pair for pair in self._attempts if pair[0] not in types]:
            del self._attempts[event_type, code]
            deliveries.remove(*self._key, event_type, code)

    def close(self) -> None:
        """Remove all metrics of the Subscription."""
        self.keep_only(())
        for family in (dispatch_seconds, dead_letters, dropped, filtered, redelivered, in_flight):
            family.remove(*self._key)
