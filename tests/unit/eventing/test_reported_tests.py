"""Who gets a test event, and how its delivery is reported."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.clock import VirtualClock
from quintet.apis.eventingbackend import NATS, effective
from quintet.apis.meta import ObjectMeta
from quintet.apis.subscription import Subscription, SubscriptionSpec, SubscriptionStatus
from quintet.apis.subscription.types import BackendInUse
from quintet.eventing.decide.test_reports import (
    DELIVERED,
    NOT_DELIVERED,
    DeliveryReport,
    matching_subscriptions,
    parse_note,
    report_note,
)
from quintet.eventing.dispatcher.dead_letters import EVENT_INTERVAL, MOST_TESTS, DeadLetters
from quintet.eventing.dispatcher.decide.retry_policy import DeliveryResult

CONFIG = effective(NATS, {"eventTypePrefix": "sap.kyma.custom"})


def subscribed(name: str, *types: str, backend: str = "main", source: str = "commerce") -> Subscription:
    return Subscription(
        metadata=ObjectMeta(name=name, namespace="shop"),
        spec=SubscriptionSpec("http://s", source, types),
        status=SubscriptionStatus(backend=BackendInUse(backend, "nats")),
    )


@pytest.mark.parametrize(
    ("source", "event_type", "want"),
    [
        pytest.param("commerce", "order.created.v1", ["plain"], id="type and source"),
        pytest.param("com/merce", "order.cre ated.v1", ["plain"], id="the same after cleaning"),
        pytest.param("stock", "order.created.v1", [], id="other source"),
        pytest.param("anyone", "sap.kyma.custom.commerce.order.v1", ["complete"], id="complete type"),
        pytest.param("sap", "kyma.custom.commerce.order.v1", [], id="other type with the same subject"),
    ],
)
def test_subscription_matches_what_its_dispatcher_delivers(source: str, event_type: str, want: list[str]):
    found = [
        subscribed("plain", "order.created.v1"),
        subscribed("complete", "sap.kyma.custom.commerce.order.v1"),
        subscribed("elsewhere", "order.created.v1", backend="other"),
    ]
    matching = matching_subscriptions(found, "main", CONFIG, {"source": source, "type": event_type})
    assert [each.metadata.name for each in matching] == want


@given(
    st.text(st.characters(categories=("L", "N", "P")), min_size=1),
    st.integers(1, 10_000),
    st.text(max_size=50),
)
def test_note_of_a_report_is_read_unchanged(event_id: str, attempt: int, result: str):
    assert parse_note(report_note(event_id, attempt, result)) == DeliveryReport(event_id, attempt, result)


def test_note_of_other_events_is_no_report():
    assert parse_note("an event could not be delivered to http://s in 1 attempt") is None


class Recorded:
    """Keeps what is recorded."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def record(self, *event: object, action: str) -> None:
        self.reasons.append(str(event[4]))


async def test_reports_of_test_events_are_limited_because_every_publisher_can_send_them():
    clock, recorder = VirtualClock(), Recorded()
    letters = DeadLetters(None, "", recorder, clock)  # type: ignore[arg-type]  # neither stores nor sends here
    subscription = subscribed("orders", "a.b")
    for number in range(MOST_TESTS + 5):
        letters.report_test(subscription, str(number), DeliveryResult(204 if number else 500), 1)
    assert recorder.reasons == [NOT_DELIVERED, *[DELIVERED] * (MOST_TESTS - 1)]
    await clock.advance(EVENT_INTERVAL)
    letters.report_test(subscription, "late", DeliveryResult(204), 1)
    assert len(recorder.reasons) == MOST_TESTS + 1
