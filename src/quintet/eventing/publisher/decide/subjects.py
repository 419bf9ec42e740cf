"""Where an event that was just taken in is kept, or why nowhere. Pure but for a cache.

What a subject is made of is `eventing.naming`'s; here is what a publisher is told about it.
"""

from typing import Final, NamedTuple

from quintet.apis.subscription import clean_type
from quintet.eventing.decide.headers import encoded
from quintet.eventing.decide.naming import event_subject

LONGEST: Final = 1024
"""Bytes of a subject. A server of NATS reads lines of 4,096 bytes, with two subjects in them."""
_MOST_REMEMBERED: Final = 4096


class NoSubjectError(ValueError):
    """No subject can be made of source and type; says which of them and why."""


class Place(NamedTuple):
    """The subject of an event, and its cleaned type as a header."""

    subject: str
    clean_type: str


class Subjects:
    """Subjects in the stream of one backend."""

    def __init__(self, prefix: str, event_type_prefix: str) -> None:
        self._prefix = prefix
        self._event_type_prefix = event_type_prefix
        self._known: dict[tuple[str, str], Place] = {}

    def of(self, source: str, event_type: str) -> Place:
        """Where an event of this type from this source is kept; raises `NoSubjectError`."""
        found = self._known.get((source, event_type))
        if found is None:
            found = self._made(source, event_type)
            # Publishers use few pairs; whoever uses a new one each time must not fill the memory.
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[source, event_type] = found
        return found

    def _made(self, source: str, event_type: str) -> Place:
        cleaned = clean_type(event_type)
        if not all(cleaned.split(".")):
            raise NoSubjectError(f"type: MUST NOT have empty segments after cleaning: {cleaned[:256]}")
        subject = event_subject(self._prefix, self._event_type_prefix, source, event_type)
        if ".." in subject:
            raise NoSubjectError(f"source: MUST NOT be empty after cleaning: {source[:256]}")
        if not subject.isprintable():
            raise NoSubjectError("source, type: MUST be printable text")
        if len(subject.encode()) > LONGEST:
            raise NoSubjectError(f"source, type: MUST NOT give a subject of more than {LONGEST} bytes")
        return Place(subject, encoded(cleaned))
