"""The subject of a published event, or why there is none. Pure, apart from a cache."""

from typing import Final, NamedTuple

from quintet.apis.subscription import clean_type
from quintet.eventing.decide.headers import encode_value
from quintet.eventing.decide.naming import event_subject

MAX_BYTES: Final = 1024
"""Bytes of a subject. A NATS server reads lines of at most 4,096 bytes, which contain two subjects."""
_MAX_CACHED: Final = 4096


class NoSubjectError(ValueError):
    """Source and type give no valid subject; the message says which and why."""


class Destination(NamedTuple):
    """The subject of an event, and its cleaned type as a header value."""

    subject: str
    clean_type: str


class SubjectMapper:
    """Maps events to subjects of one backend."""

    def __init__(self, prefix: str, event_type_prefix: str) -> None:
        self._prefix = prefix
        self._event_type_prefix = event_type_prefix
        self._cache: dict[tuple[str, str], Destination] = {}

    def find(self, source: str, event_type: str) -> Destination:
        """Return the destination of an event; raises `NoSubjectError`."""
        found = self._cache.get((source, event_type))
        if found is None:
            found = self._build(source, event_type)
            # Publishers use few pairs; a publisher that uses a new one every time must not fill the memory.
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            self._cache[source, event_type] = found
        return found

    def _build(self, source: str, event_type: str) -> Destination:
        cleaned = clean_type(event_type)
        if not all(cleaned.split(".")):
            raise NoSubjectError(f"type: MUST NOT have empty segments after cleaning: {cleaned[:256]}")
        subject = event_subject(self._prefix, self._event_type_prefix, source, event_type)
        if ".." in subject:
            raise NoSubjectError(f"source: MUST NOT be empty after cleaning: {source[:256]}")
        if not subject.isprintable():
            raise NoSubjectError("source, type: MUST be printable text")
        if len(subject.encode()) > MAX_BYTES:
            raise NoSubjectError(f"source, type: MUST NOT give a subject of more than {MAX_BYTES} bytes")
        return Destination(subject, encode_value(cleaned))
