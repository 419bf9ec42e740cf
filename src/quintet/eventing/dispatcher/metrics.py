"""Numbers about deliveries, under the names that dashboards of Kyma Eventing query.

Set by `delivery`, served by `observe.health`. Labels are bounded: types are those that a Subscription
lists, codes are those of HTTP, and the series of a Subscription go with it.
"""

from collections.abc import Sequence

from prometheus_client import Counter, Gauge, Histogram

from quintet.apis.meta import ObjectKey
from quintet.eventing.dispatcher.decide.policy import Answer

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_OF = ["subscription_namespace", "subscription_name"]

deliveries = Counter(
    "eventing_ec_nats_delivery_per_subscription",
    "Tries to deliver an event, by answer",
    [*_OF, "event_type", "response_code"],
)
dispatch_seconds = Histogram(
    "eventing_ec_nats_subscriber_dispatch_duration_seconds",
    "Time a sink takes to answer",
    _OF,
    buckets=_BUCKETS,
)
dead_letters = Counter("eventing_ec_dead_letters", "Events given up after the last try", _OF)
redelivered = Counter(
    "eventing_ec_redelivered", "Events that came again though the sink has them; not sent twice", _OF
)
in_flight = Gauge("eventing_ec_in_flight", "Events that are under way to a sink", _OF)
health = Gauge("eventing_ec_health", "1 while events can be delivered")


class Meters:
    """The series of one Subscription."""

    def __init__(self, key: ObjectKey) -> None:
        self._key = key
        self._tries: dict[tuple[str, str], Counter] = {}
        self._seconds = dispatch_seconds.labels(*key)
        self.dead = dead_letters.labels(*key)
        self.again = redelivered.labels(*key)
        self.under_way = in_flight.labels(*key)

    def tried(self, event_type: str, answer: Answer, seconds: float) -> None:
        """One try is over."""
        self._seconds.observe(seconds)
        found = self._tries.get((event_type, answer.code))
        if found is None:
            found = deliveries.labels(*self._key, event_type, answer.code)
            self._tries[event_type, answer.code] = found
        found.inc()

    def keep_only(self, types: Sequence[str]) -> None:
        """Types that a Subscription no longer lists have no series either."""
        for event_type, code in [pair for pair in self._tries if pair[0] not in types]:
            del self._tries[event_type, code]
            deliveries.remove(*self._key, event_type, code)

    def close(self) -> None:
        """The Subscription is gone."""
        self.keep_only(())
        for family in (dispatch_seconds, dead_letters, redelivered, in_flight):
            family.remove(*self._key)
