"""Sources and types of events → parts of a subject.

Pure. Publisher and dispatcher both call it: an event is found only where both clean alike.
"""

from typing import Final

from quintet.apis.subscription.types import EventType, SubscriptionSpec, TypeMatching

NOT_IN_TYPES: Final = " >*/\\"
NOT_IN_SOURCES: Final = f"{NOT_IN_TYPES}."
_TYPES = str.maketrans("", "", NOT_IN_TYPES)
_SOURCES = str.maketrans("", "", NOT_IN_SOURCES)


def clean_source(source: str) -> str:
    """One word of a subject."""
    return source.translate(_SOURCES)


def clean_type(event_type: str) -> str:
    """Words of a subject, joined by dots."""
    return event_type.translate(_TYPES)


def subject(prefix: str, source: str, event_type: str) -> str:
    """Where an event of a type from a source is kept."""
    return f"{prefix}.{clean_source(source)}.{clean_type(event_type)}"


def event_types(spec: SubscriptionSpec) -> tuple[EventType, ...]:
    """The types of a subscription as they are looked for."""
    exact = spec.type_matching is TypeMatching.EXACT
    return tuple(EventType(written, written if exact else clean_type(written)) for written in spec.types)
