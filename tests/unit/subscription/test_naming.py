"""Subjects and consumers of Subscriptions: publisher and dispatcher must mean the same."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.apis.meta import ObjectMeta
from quintet.apis.subscription import Subscription, SubscriptionSpec, TypeMatching, validate
from quintet.eventing.decide.naming import (
    CONSUMER_LENGTH,
    consumer_name,
    event_subject,
    subscription_subjects,
)

PREFIX, COMPLETE = "kyma", "sap.kyma.custom"


def a_subscription(*types, source="commerce", matching=TypeMatching.STANDARD):
    return Subscription(
        metadata=ObjectMeta(name="orders", namespace="shop", uid="1"),
        spec=SubscriptionSpec(
            sink="http://orders.shop.svc.cluster.local", source=source, types=types, type_matching=matching
        ),
    )


@pytest.mark.parametrize(
    ("source", "event_type", "want"),
    [
        ("commerce", "order.created.v1", "kyma.commerce.order.created.v1"),
        ("/my shop.*>", "order created.v1", "kyma.myshop.ordercreated.v1"),
        ("ignored", "sap.kyma.custom.shop.order.v1", "kyma.sap.kyma.custom.shop.order.v1"),
        ("shop", "sap.kyma.customer.order.v1", "kyma.shop.sap.kyma.customer.order.v1"),
    ],
)
def test_event_has_one_subject(source, event_type, want):
    assert event_subject(PREFIX, COMPLETE, source, event_type) == want


@given(source=st.text(max_size=40), event_type=st.text(max_size=60))
def test_valid_subscription_filters_the_subjects_of_its_events(source, event_type):
    subscription = a_subscription(event_type, source=source)
    if validate(msgspec.to_builtins(subscription)).errors:
        return
    published = event_subject(PREFIX, COMPLETE, source, event_type)
    assert list(subscription_subjects(subscription, PREFIX, COMPLETE)) == [published]


@pytest.mark.parametrize("matching", TypeMatching)
def test_subject_is_converted_back_to_its_type(matching):
    subscription = a_subscription("order.created.v1", "sap.kyma.custom.shop.order.v1", matching=matching)
    assert subscription_subjects(subscription, PREFIX, COMPLETE) == {
        "kyma.commerce.order.created.v1": "order.created.v1",
        "kyma.sap.kyma.custom.shop.order.v1": "sap.kyma.custom.shop.order.v1",
    }


def test_consumers_of_different_subscriptions_have_different_names():
    metadata = ObjectMeta(name="orders", namespace="shop", uid="1")
    others = [
        msgspec.structs.replace(metadata, name="other"),
        msgspec.structs.replace(metadata, namespace="other"),
        msgspec.structs.replace(metadata, uid="2"),
    ]
    names = {consumer_name(each) for each in (metadata, *others)}
    assert len(names) == 4
    assert {len(name) for name in names} == {CONSUMER_LENGTH}


def test_consumer_name_is_stable_between_releases():
    metadata = ObjectMeta(name="orders", namespace="shop", uid="0f1e2d3c")
    assert consumer_name(metadata) == "2839e38557865c8c2f289829194180cb"
