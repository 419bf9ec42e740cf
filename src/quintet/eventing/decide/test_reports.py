"""Test events: who gets them, and the Kubernetes Events that report their delivery. Pure."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from quintet.apis.eventingbackend import Effective
from quintet.apis.subscription import Subscription, clean_type
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
    subscriptions: Iterable[Subscription], backend: str, config: Effective, source: str, event_type: str
) -> list[Subscription]:
    """Return the Subscriptions of a backend that get events of a source and type."""
    prefixes = config.subject_prefixes
    prefix, type_prefix = prefixes.stream_subject_prefix, prefixes.event_type_prefix
    subject = naming.event_subject(prefix, type_prefix, source, event_type)
    return [
        each
        for each in subscriptions
        if each.status.backend.name == backend
        and naming.subscription_subjects(each, prefix, type_prefix).get(subject) == clean_type(event_type)
    ]
