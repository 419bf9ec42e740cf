"""An event as the stream keeps it → the event as a sink gets it: a binary CloudEvent over HTTP. Pure.

The publisher proxy stores events in the form in which they go out, so nothing is decoded here. Others
may have stored whole JSON documents, which go out in the same form. What a sink sees is what was
published: its own type, not the cleaned one.
"""

import functools
import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from quintet.eventing.decide.cloudevents import Event, NotACloudEventError, read

ORIGINAL_TYPE: Final = "ce-originaltype"
TRACING: Final = frozenset(("traceparent", "tracestate", "baggage", "b3"))
_TRACING_OF_OLD: Final = "x-b3-"
_NEEDED: Final = ("ce-id", "ce-source", "ce-type", "ce-specversion")
_NOT_IN_VALUES = re.compile(r"[^ -~]+")
_NAME = re.compile(r"[a-z0-9-]+").fullmatch


class UnreadableEvent(ValueError):
    """What the stream holds is no CloudEvent: no try can help."""


class Outgoing(NamedTuple):
    """What is sent to a sink."""

    headers: dict[str, str]
    body: bytes

    @property
    def identity(self) -> tuple[str, str]:
        """What makes an event the same: its source and id."""
        return self.headers["ce-source"], self.headers["ce-id"]


def outgoing(headers: Mapping[str, str] | None, payload: bytes, event_type_prefix: str) -> Outgoing:
    """The request for an event; raises `UnreadableEvent`."""
    given, body = headers or {}, payload
    made = _passed_on(given)
    if not all(map(made.get, _NEEDED)):
        kept, body = _read({name.lower(): value for name, value in given.items()}, payload)
        made = {name: value for name, value in made.items() if _traces(name)} | _passed_on(kept)
    written = made.pop(ORIGINAL_TYPE, "") or made["ce-type"]
    made["ce-type"] = written.removeprefix(f"{event_type_prefix}.") if event_type_prefix else written
    return Outgoing(made, body)


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    """What of the headers of a message goes to the sink."""
    return {
        outside: value if value.isascii() and value.isprintable() else _safe(value)
        for name, value in headers.items()
        if (outside := _outside(name))
    }


@functools.lru_cache(maxsize=1024)
def _outside(name: str) -> str:
    """What a header is called outside; empty if it does not go there. Events use few names."""
    lower = name.lower()
    is_of_event = lower == "content-type" or (lower.startswith("ce-") and _NAME(lower) is not None)
    return lower if is_of_event or _traces(lower) else ""


def _read(lower: dict[str, str], payload: bytes) -> tuple[dict[str, str], bytes]:
    try:
        event = read(lower, payload)
    except NotACloudEventError as error:
        raise UnreadableEvent(str(error)) from None
    if not isinstance(event, Event):
        raise UnreadableEvent("it is a batch of events")
    return event.headers, event.data


def _traces(name: str) -> bool:
    return name in TRACING or (name.startswith(_TRACING_OF_OLD) and _NAME(name) is not None)


def _safe(value: str) -> str:
    """A value that cannot end its header: what a header cannot hold is percent-encoded."""
    return _NOT_IN_VALUES.sub(lambda found: quote(found[0].encode("utf-8", "replace"), safe=""), value)
