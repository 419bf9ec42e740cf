"""What the consumer of a Subscription should be, and when it is changed."""

import msgspec
import pytest

from quintet.apis.eventingbackend import (
    NATS,
    EventingBackend,
    EventingBackendSpec,
    SubjectPrefixes,
    effective,
)
from quintet.apis.meta import ObjectMeta
from quintet.apis.subscription import (
    BackendInUse,
    Consumer,
    Subscription,
    SubscriptionConfig,
    SubscriptionSpec,
    SubscriptionStatus,
)
from quintet.eventing.decide.consumers import (
    MAX_PULL_BATCH,
    consumer_update,
    desired_consumer,
    find_orphans,
    has_active_pull,
    has_handled,
    needs_consumer,
    owner_uid,
    pull_batch,
)
from quintet.nats.config import ConsumerConfig, ConsumerInfo, SequencePair

BACKEND = EventingBackend(
    metadata=ObjectMeta(name="main", namespace="shop", uid="b1"), spec=EventingBackendSpec(type="nats")
)
CONFIG = effective(NATS, {"maxInFlightMessages": 20, "consumerDeliverPolicy": "all"})


def a_subscription(in_flight=None, types=("a.b",)):
    return Subscription(
        metadata=ObjectMeta(name="orders", namespace="shop", uid="s1"),
        spec=SubscriptionSpec(sink="", source="commerce", types=types, config=SubscriptionConfig(in_flight)),
    )


def as_kept(config: ConsumerConfig, **other) -> ConsumerConfig:
    """A consumer as the server shows it: with marks of its own."""
    return msgspec.structs.replace(
        config, metadata={**config.metadata, "_nats.ver": "2.15"}, num_replicas=0, **other
    )


WANTED = desired_consumer(a_subscription(), BACKEND, CONFIG)


def test_consumer_config_follows_subscription_and_backend():
    assert WANTED.filter_subjects == ("kyma.commerce.a.b",)
    assert WANTED.max_ack_pending == 20
    assert WANTED.deliver_policy == "all"
    assert (WANTED.ack_policy, WANTED.max_deliver) == ("explicit", -1)


@pytest.mark.parametrize("written", [5, "5"])
def test_subscription_settings_override_backend_settings(written):
    assert desired_consumer(a_subscription(written), BACKEND, CONFIG).max_ack_pending == 5


def test_consumer_keeps_subjects_of_former_prefixes():
    former = (SubjectPrefixes("old", "sap.kyma.custom"), SubjectPrefixes("kyma", "a"))
    consumer = desired_consumer(a_subscription(), BACKEND, CONFIG, former)
    assert consumer.filter_subjects == ("kyma.commerce.a.b", "old.commerce.a.b", "kyma.a.b")


@pytest.mark.parametrize(
    ("info", "want"),
    [
        ({"num_pending": 1}, False),
        ({"num_ack_pending": 1}, False),
        ({"num_pending": 9, "ack_floor": SequencePair(stream_seq=4)}, False),
        ({"num_pending": 9, "ack_floor": SequencePair(stream_seq=5)}, True),
        ({}, True),
    ],
)
def test_consumer_has_handled_events_up_to_its_ack_floor_or_all(info, want):
    assert has_handled(ConsumerInfo(**info), 5) is want


def test_up_to_date_consumer_is_not_changed():
    assert consumer_update(as_kept(WANTED), WANTED) is None


@pytest.mark.parametrize(
    "other",
    [
        {"max_ack_pending": 1},
        {"filter_subjects": ("kyma.commerce.c.d",)},
        {"ack_wait": 1},
        {"max_deliver": 3},
        {"metadata": {}},
    ],
    ids=lambda other: next(iter(other)),
)
def test_different_consumer_is_corrected(other):
    mended = consumer_update(msgspec.structs.replace(as_kept(WANTED), **other), WANTED)
    assert mended is not None
    for name in other:
        assert getattr(mended, name) == getattr(WANTED, name)


def test_deliver_policy_of_a_consumer_is_not_changed():
    found = as_kept(WANTED, deliver_policy="new")
    assert consumer_update(found, WANTED) is None
    mended = consumer_update(msgspec.structs.replace(found, max_ack_pending=1), WANTED)
    assert mended is not None
    assert mended.deliver_policy == "new"


def test_consumers_of_the_backend_without_subscription_are_orphans():
    ours = ConsumerInfo(name=WANTED.durable_name, config=as_kept(WANTED))
    lost = ConsumerInfo(name="lost", config=as_kept(WANTED))
    of_other = ConsumerInfo(
        name="other", config=msgspec.structs.replace(WANTED, metadata={"quintet.dev/backend-uid": "b2"})
    )
    foreign = ConsumerInfo(name="foreign", config=ConsumerConfig(durable_name="foreign"))
    found = find_orphans(
        [ours, lost, of_other, foreign, ConsumerInfo(name="odd")], "b1", {WANTED.durable_name}
    )
    assert found == ["lost"]
    assert owner_uid(foreign) == ""


@pytest.mark.parametrize(
    ("info", "want"),
    [
        (ConsumerInfo(), False),
        (ConsumerInfo(num_waiting=1), True),
        (ConsumerInfo(num_ack_pending=10), False),
        (ConsumerInfo(num_ack_pending=MAX_PULL_BATCH), True),
    ],
    ids=["nobody", "somebody asks", "somebody asked before", "somebody has its hands full"],
)
def test_pulling_dispatcher_is_detected(info, want):
    assert has_active_pull(info) is want


def with_status(in_use, wanted_backend="", consumer=True):
    kept = (Consumer("a.b", "c"),) if consumer else ()
    return msgspec.structs.replace(
        a_subscription(),
        spec=msgspec.structs.replace(a_subscription().spec, backend=wanted_backend),
        status=SubscriptionStatus(backend=BackendInUse(in_use, "nats", kept)),
    )


@pytest.mark.parametrize(
    ("subscription", "want"),
    [
        pytest.param(with_status("", consumer=False), True, id="nothing is known of it"),
        pytest.param(with_status("main"), True, id="it is in use"),
        pytest.param(with_status("main", "other"), True, id="it is in use until another one is"),
        pytest.param(with_status("other", "other", consumer=False), True, id="the other one has none yet"),
        pytest.param(with_status("other", "main"), True, id="it is to be used"),
        pytest.param(with_status("other", "other"), False, id="another one is in use"),
        pytest.param(with_status("other", "absent"), False, id="a third one is wanted"),
    ],
)
def test_consumer_is_needed_until_another_backend_has_one(subscription, want):
    other = msgspec.structs.replace(
        BACKEND, metadata=msgspec.structs.replace(BACKEND.metadata, name="other", uid="b2")
    )
    assert needs_consumer(subscription, BACKEND, [BACKEND, other]) is want


def test_pull_size_exceeds_max_in_flight_up_to_a_limit():
    assert [pull_batch(allowed) for allowed in (1, 10, 10_000)] == [4, 22, MAX_PULL_BATCH]
