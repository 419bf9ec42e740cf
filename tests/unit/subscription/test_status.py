"""What is said about a Subscription."""

from datetime import UTC, datetime

import msgspec

from quintet.apis.eventingbackend import EventingBackend, EventingBackendSpec, EventingBackendStatus
from quintet.apis.meta import Condition, ObjectMeta
from quintet.apis.subscription import (
    BackendInUse,
    Consumer,
    EventType,
    Subscription,
    SubscriptionSpec,
    SubscriptionStatus,
    validate,
)
from quintet.apis.subscription.types import Backlog
from quintet.controllers.subscription.decide.status import (
    DeliveryProblem,
    Observation,
    Reason,
    age,
    backend_problem,
    deleting_status,
    invalid_spec,
    pause_problem,
    status_of,
)

SINK = "http://orders.shop.svc.cluster.local"
TYPES = ("order created.v1", "order.paid.v1")
CLEAN = (EventType("order created.v1", "ordercreated.v1"), EventType("order.paid.v1", "order.paid.v1"))


def a_subscription(**spec):
    return Subscription(
        metadata=ObjectMeta(name="orders", namespace="shop", generation=3),
        spec=SubscriptionSpec(**{"sink": SINK, "source": "commerce", "types": TYPES, **spec}),
    )


def a_backend(type_="nats", *, ready=True, observed=1, conditions=()):
    return EventingBackend(
        metadata=ObjectMeta(name="main", namespace="shop", generation=1),
        spec=EventingBackendSpec(type=type_),
        status=EventingBackendStatus(
            eventing_ready=ready, observed_generation=observed, conditions=conditions
        ),
    )


def test_delivering_subscription_is_ready_and_names_its_backend():
    status = status_of(a_subscription(), Observation(a_backend(), "c0ffee"))
    assert status.ready is True
    assert status.observed_generation == 3
    assert status.types == CLEAN
    assert status.backend == BackendInUse(
        "main", "nats", (Consumer("order created.v1", "c0ffee"), Consumer("order.paid.v1", "c0ffee"))
    )
    assert [(each.type, each.status, each.reason) for each in status.conditions] == [
        ("Ready", "True", "Delivering")
    ]


def test_clean_types_are_shown_even_if_nothing_works():
    status = status_of(
        a_subscription(), Observation(problem=DeliveryProblem(Reason.BACKEND_NOT_FOUND, "there is none"))
    )
    assert status.ready is False
    assert status.types == CLEAN


def test_invalid_spec_is_reported_with_the_text_of_the_webhook():
    broken = a_subscription(sink="ftp://x")
    errors = validate(msgspec.to_builtins(broken)).errors
    condition = status_of(broken, invalid_spec(errors)).conditions[0]
    assert (condition.status, condition.reason) == ("False", "InvalidSpec")
    assert "must have URL scheme 'http' or 'https'" in condition.message


def test_invalid_spec_keeps_the_known_consumer():
    in_use = BackendInUse("main", "nats", (Consumer("order.paid.v1", "c0ffee"),))
    known = msgspec.structs.replace(a_subscription(sink=""), status=SubscriptionStatus(backend=in_use))
    assert status_of(known, invalid_spec(())).backend == in_use


def test_consumer_is_kept_while_its_server_is_unreachable():
    in_use = BackendInUse("main", "nats", (Consumer("order.paid.v1", "c0ffee"),))
    known = msgspec.structs.replace(a_subscription(), status=SubscriptionStatus(backend=in_use))
    found = Observation(a_backend(), "", DeliveryProblem(Reason.BACKEND_NOT_READY, "away"))
    assert status_of(known, found).backend == in_use


def test_ready_backend_is_no_problem():
    assert backend_problem(a_backend()) is None


def test_readiness_of_an_older_generation_does_not_count():
    trouble = backend_problem(a_backend(observed=0))
    assert trouble is not None
    assert trouble.reason is Reason.BACKEND_NOT_READY


def test_reason_of_the_backend_is_reported():
    known = (Condition("Ready", "False", "BackendNotReady", "Backend Ready: no answer from nats:4222"),)
    trouble = backend_problem(a_backend(ready=False, conditions=known))
    assert trouble is not None
    assert "no answer from nats:4222" in trouble.message


def test_event_mesh_backend_reports_external_delivery():
    trouble = backend_problem(a_backend("beb"))
    assert trouble is not None
    assert trouble.reason == "DeliveryByEventMesh"


def test_pause_is_reported_and_keeps_the_backlog():
    paused = a_subscription(paused=True)
    assert pause_problem(a_subscription()) is None
    status = status_of(
        paused, Observation(a_backend(), "c0ffee", pause_problem(paused), backlog=Backlog(7, 0, 2, "then"))
    )
    assert (status.ready, status.conditions[0].reason) == (False, "Paused")
    known = msgspec.structs.replace(paused, status=status)
    unknown = status_of(known, Observation(a_backend(), "", DeliveryProblem(Reason.CONSUMER_FAILED, "away")))
    assert unknown.backlog == Backlog(7, 0, 2, "then")
    assert deleting_status(known, "away").backlog == Backlog(7, 0, 2, "then")


def test_waiting_deletion_reports_what_it_waits_for():
    condition = deleting_status(a_subscription(), "EventingBackend 'main' has no connection").conditions[0]
    assert (condition.status, condition.reason) == ("False", "ConsumerNotRemoved")
    assert "'main' has no connection" in condition.message


def test_long_message_is_cut():
    found = Observation(problem=DeliveryProblem(Reason.INVALID_SPEC, "x" * 100_000))
    assert len(status_of(a_subscription(), found).conditions[0].message) == 4096


def test_age_is_the_time_since_the_last_transition():
    since = Condition("Ready", "False", "DispatcherNotPulling", "", "2030-01-01T00:00:00Z")
    known = msgspec.structs.replace(a_subscription(), status=SubscriptionStatus(conditions=(since,)))
    assert age(known, datetime(2030, 1, 1, 0, 1, tzinfo=UTC)) == 60.0
    assert age(a_subscription(), datetime(2030, 1, 1, tzinfo=UTC)) == 0.0
