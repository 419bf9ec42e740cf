"""Turns sources and types of events into parts of a NATS subject.

Pure. Publisher and dispatcher share it, because both must derive the same subject.
"""

from typing import Final

from quintet.apis.subscription.types import EventType, SubscriptionSpec, TypeMatching

NOT_IN_TYPES: Final = " >*/\\"
NOT_IN_SOURCES: Final = f"{NOT_IN_TYPES}."
_TYPES = str.maketrans("", "", NOT_IN_TYPES)
_SOURCES = str.maketrans("", "", NOT_IN_SOURCES)


def clean_source(source: str) -> str:
    """Return a text as one token of a subject."""
    return source.translate(_SOURCES)


def clean_type(event_type: str) -> str:
    """Return a text as tokens of a subject, joined by dots."""
    return event_type.translate(_TYPES)


def subject(prefix: str, source: str, event_type: str) -> str:
    """Return the subject part of an event type from a source."""
    return f"{prefix}.{clean_source(source)}.{clean_type(event_type)}"


def event_types(spec: SubscriptionSpec) -> tuple[EventType, ...]:
    """Return the types of a Subscription as they appear in subjects."""
    standard = spec.type_matching is TypeMatching.STANDARD
    return tuple(EventType(written, clean_type(written) if standard else written) for written in spec.types)
