"""Prometheus metrics of Subscriptions, with the names that Kyma Eventing dashboards query."""

from prometheus_client import Gauge

from quintet.apis.meta import ObjectKey
from quintet.apis.subscription import Subscription, SubscriptionStatus

_OF = ["subscription_namespace", "subscription_name"]

status = Gauge("eventing_ec_subscription_status", "1 while events are delivered", _OF)
subscribed = Gauge(
    "eventing_ec_event_type_subscribed_total", "1 for each type of a Subscription", [*_OF, "event_type"]
)


class SubscriptionMetrics:
    """The series of all Subscriptions."""

    def __init__(self) -> None:
        self._types: dict[ObjectKey, tuple[str, ...]] = {}

    def show(self, subscription: Subscription, now: SubscriptionStatus) -> None:
        """Update the series of a Subscription."""
        key, types = subscription.key, tuple(each.clean_type for each in now.types)
        status.labels(*key).set(1 if now.ready else 0)
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
        for each in set(types):
            subscribed.remove(*key, each)
