"""Converts a message of the stream to the HTTP request for a sink: a CloudEvent in binary mode. Pure.

The publisher proxy stores events in binary mode, so their headers are passed on. Other clients may have
stored structured events, which are converted. The sink gets the type as published without the prefix of the
backend, not the cleaned one, and the type exactly as published in the attribute `originaltype`.
"""

import functools
import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from quintet.apis.subscription import clean_type
from quintet.apis.subscription.wildcards import fits
from quintet.eventing.decide.cloudevents import CloudEvent, NotACloudEventError, parse_events
from quintet.eventing.decide.headers import (
    B3_PREFIX,
    CONTENT_TYPE,
    ID,
    ORIGINAL_TYPE,
    PREFIX,
    REQUIRED,
    SOURCE,
    TEST,
    TRACING,
    TYPE,
    BadValueError,
    decode_value,
)

_TRACING: Final = frozenset(TRACING)
_NOT_PRINTABLE = re.compile(r"[^ -~]+")
_NAME = re.compile(r"[a-z0-9-]+").fullmatch


class InvalidEvent(ValueError):
    """A message that is not a CloudEvent; a retry cannot succeed."""


class OutgoingEvent(NamedTuple):
    """Headers and body of the request to a sink."""

    headers: dict[str, str]
    body: bytes

    @property
    def identity(self) -> tuple[str, str]:
        """Source and id, which identify a CloudEvent."""
        return self.headers[SOURCE], self.headers[ID]

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes of the CloudEvent by name."""
        found = {
            name.removeprefix(PREFIX): _decode(value)
            for name, value in self.headers.items()
            if name.startswith(PREFIX)
        }
        if CONTENT_TYPE in self.headers:
            found["datacontenttype"] = self.headers[CONTENT_TYPE]
        return found

    @property
    def is_test(self) -> bool:
        """Whether the publisher asks for a report of the delivery."""
        return self.headers.get(TEST) == "true"

    def has_other_type(self, clean: str) -> bool:
        """Return whether the publisher proxy stored this event, with a type that does not fit a cleaned one.

        Then it shares only its subject with a Subscription: `<source>.<type>` may equal a complete type.
        """
        published = self.headers.get(ORIGINAL_TYPE, "")
        try:
            return bool(published) and not fits(clean, clean_type(decode_value(published)))
        except BadValueError:
            return False


def _decode(value: str) -> str:
    try:
        return decode_value(value)
    except BadValueError:
        return value


def build_outgoing(
    headers: Mapping[str, str] | None, payload: bytes, event_type_prefix: str
) -> OutgoingEvent:
    """Return the request for a message; raises `InvalidEvent`."""
    given, body = headers or {}, payload
    forwarded = _forward_headers(given)
    if not all(map(forwarded.get, REQUIRED)):
        event_headers, body = _parse({name.lower(): value for name, value in given.items()}, payload)
        tracing = {name: value for name, value in forwarded.items() if _is_tracing(name)}
        forwarded = tracing | _forward_headers(event_headers)
    original = forwarded.get(ORIGINAL_TYPE, "") or forwarded[TYPE]
    forwarded[TYPE] = original.removeprefix(f"{event_type_prefix}.") if event_type_prefix else original
    return OutgoingEvent(forwarded, body)


def _forward_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a message that the sink gets."""
    return {
        forwarded: value if value.isascii() and value.isprintable() else _escape(value)
        for name, value in headers.items()
        if (forwarded := _forwarded_name(name))
    }


@functools.lru_cache(maxsize=1024)
def _forwarded_name(name: str) -> str:
    """Return the name of a header in the request to the sink; empty if it is not forwarded."""
    lower = name.lower()
    is_event_header = lower == CONTENT_TYPE or (lower.startswith(PREFIX) and _NAME(lower) is not None)
    return lower if is_event_header or _is_tracing(lower) else ""


def _parse(lower: dict[str, str], payload: bytes) -> tuple[dict[str, str], bytes]:
    try:
        event = parse_events(lower, payload)
    except NotACloudEventError as error:
        raise InvalidEvent(str(error)) from None
    if not isinstance(event, CloudEvent):
        raise InvalidEvent("a batch of events")
    return event.headers, event.data


def _is_tracing(name: str) -> bool:
    return name in _TRACING or (name.startswith(B3_PREFIX) and _NAME(name) is not None)


def _escape(value: str) -> str:
    """Return a safe header value: other characters than printable ASCII are percent-encoded."""
    return _NOT_PRINTABLE.sub(lambda found: quote(found[0].encode("utf-8", "replace"), safe=""), value)
