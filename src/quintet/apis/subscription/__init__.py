"""Subscription: which events go to which sink. Types, defaults and validation."""

from quintet.apis.subscription.cleaning import clean_source, clean_type, event_types, subject
from quintet.apis.subscription.delivery import Backoff, DeadLetterMode, DeliveryPolicy
from quintet.apis.subscription.types import (
    SUBSCRIPTION,
    SUBSCRIPTIONS,
    BackendInUse,
    Consumer,
    EventType,
    Subscription,
    SubscriptionConfig,
    SubscriptionSpec,
    SubscriptionStatus,
    TypeMatching,
)
from quintet.apis.subscription.validation import default, spec_errors, validate

__all__ = [
    "SUBSCRIPTION",
    "SUBSCRIPTIONS",
    "BackendInUse",
    "Backoff",
    "Consumer",
    "DeadLetterMode",
    "DeliveryPolicy",
    "EventType",
    "Subscription",
    "SubscriptionConfig",
    "SubscriptionSpec",
    "SubscriptionStatus",
    "TypeMatching",
    "clean_source",
    "clean_type",
    "default",
    "event_types",
    "spec_errors",
    "subject",
    "validate",
]
