"""Test events: who gets them, and the Kubernetes Events that report their delivery. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from quintet.apis.eventingbackend import Effective
from quintet.apis.subscription import Subscription, clean_type
from quintet.apis.subscription.filters import matches
from quintet.apis.subscription.wildcards import fits
from quintet.eventing.decide import naming

DELIVERED: Final = "TestEventDelivered"
NOT_DELIVERED: Final = "TestEventNotDelivered"
"""Reasons of Kubernetes Events about a Subscription."""
_NOTE: Final = re.compile(r"test event (\S+), attempt (\d+): (.*)", re.DOTALL)


class DeliveryReport(NamedTuple):
    """The result of an attempt to deliver a test event."""

    event_id: str
    attempt: int
    result: str


def report_note(event_id: str, attempt: int, result: str) -> str:
    """Return the note of a Kubernetes Event about an attempt to deliver a test event."""
    return f"test event {event_id}, attempt {attempt}: {result}"


def parse_note(note: str) -> DeliveryReport | None:
    """Return the report in a note; None if it is not about a test event."""
    found = _NOTE.fullmatch(note)
    return DeliveryReport(found[1], int(found[2]), found[3]) if found is not None else None


def matching_subscriptions(
    subscriptions: Iterable[Subscription], backend: str, config: Effective, attributes: Mapping[str, str]
) -> list[Subscription]:
    """Return the Subscriptions of a backend that get an event with these attributes."""
    prefixes = config.subject_prefixes
    prefix, type_prefix = prefixes.stream_subject_prefix, prefixes.event_type_prefix
    source, event_type = attributes["source"], attributes["type"]
    subject = naming.event_subject(prefix, type_prefix, source, event_type)
    # Sinks and filters see the type without the prefix of the backend.
    seen = {**attributes, "type": event_type.removeprefix(f"{type_prefix}."), "originaltype": event_type}

    def is_receiver(subscription: Subscription) -> bool:
        subjects = naming.subscription_subjects(subscription, prefix, type_prefix)
        wanted = naming.find_type(subjects, subject)
        return (
            wanted is not None
            and fits(wanted, clean_type(event_type))
            and matches(subscription.spec.filters, seen)
        )

    return [each for each in subscriptions if each.status.backend.name == backend and is_receiver(each)]
