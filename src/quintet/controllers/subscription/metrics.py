"""Prometheus metrics of Subscriptions, with the names that Kyma Eventing dashboards query."""

from datetime import datetime

from prometheus_client import Counter, Gauge

from quintet.apis.meta import ObjectKey
from quintet.apis.subscription import Subscription, SubscriptionStatus
from quintet.apis.subscription.dead_letters import DeadLetterAction

_OF = ["subscription_namespace", "subscription_name"]

status = Gauge("eventing_ec_subscription_status", "1 while events are delivered", _OF)
subscribed = Gauge(
    "eventing_ec_event_type_subscribed_total", "1 for each type of a Subscription", [*_OF, "event_type"]
)


pending = Gauge("eventing_ec_pending", "Events that wait in the stream", _OF)
retrying = Gauge("eventing_ec_retrying", "Events that wait for another attempt", _OF)
oldest = Gauge(
    "eventing_ec_oldest_seconds", "Age of the oldest event that is not delivered yet; 0 without one", _OF
)
stored = Gauge("eventing_ec_dead_letters_stored", "Dead letters that are kept", _OF)
storage = Gauge(
    "eventing_ec_dead_letters_storage_ratio",
    "How full the dead-letter stream of the backend is; at 1 the oldest dead letters are deleted",
    _OF,
)
handled = Counter(
    "eventing_ec_dead_letters_handled",
    "Dead letters that were replayed or dropped on request",
    [*_OF, "action"],
)


def count_dead_letter(key: ObjectKey, action: DeadLetterAction) -> None:
    """Count a dead letter that was replayed or dropped."""
    handled.labels(*key, action.value).inc()


def show_storage(key: ObjectKey, used: int, limit: int) -> None:
    """Show how full the dead-letter stream of a Subscription is."""
    storage.labels(*key).set(used / limit if limit > 0 else 0)


class SubscriptionMetrics:
    """The series of all Subscriptions."""

    def __init__(self) -> None:
        self._types: dict[ObjectKey, tuple[str, ...]] = {}

    def show(self, subscription: Subscription, found: SubscriptionStatus, now: datetime) -> None:
        """Update the series of a Subscription."""
        key, types = subscription.key, tuple(each.clean_type for each in found.types)
        status.labels(*key).set(1 if found.ready else 0)
        pending.labels(*key).set(found.backlog.pending)
        retrying.labels(*key).set(found.backlog.retrying)
        since = found.backlog.oldest
        oldest.labels(*key).set((now - datetime.fromisoformat(since)).total_seconds() if since else 0)
        stored.labels(*key).set(found.dead_letters.count)
        for gone in set(self._types.get(key, ())) - set(types):
            subscribed.remove(*key, gone)
        for each in types:
            subscribed.labels(*key, each).set(1)
        self._types[key] = types

    def forget(self, key: ObjectKey) -> None:
        """Remove the series of a deleted Subscription."""
        types = self._types.pop(key, None)
        if types is None:
            return
        status.remove(*key)
        for gauge in (pending, retrying, oldest, stored):
            gauge.remove(*key)
        for family in (storage, handled):
            family.remove_by_labels(dict(zip(_OF, key, strict=True)))
        for each in set(types):
            subscribed.remove(*key, each)
