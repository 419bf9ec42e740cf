"""Dead letters of a Subscription: what its status shows, and requests to replay or drop them. Pure."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from quintet.apis.decoding import DECODE_ERRORS
from quintet.apis.markers import ATOMIC
from quintet.apis.meta import ObjectMeta, Struct

REQUEST: Final = "eventing.kyma-project.io/dead-letters"
"""Annotation with a `DeadLetterRequest` as JSON."""
MOST_LISTED: Final = 20
LONGEST: Final = 256

_Text = Annotated[str, Meta(max_length=LONGEST)]


class DeadLetterAction(StrEnum):
    """What to do with dead letters."""

    REPLAY = "replay"
    DROP = "drop"


class DeadLetter(Struct, frozen=True):
    """An event that could not be delivered."""

    sequence: Annotated[int, Meta(description="Its number in the dead-letter stream.", ge=0)]
    id: Annotated[_Text, Meta(description="The id of the event.")] = ""
    type: Annotated[_Text, Meta(description="The type of the event.")] = ""
    source: Annotated[_Text, Meta(description="The source of the event.")] = ""
    time: Annotated[str, Meta(description="When it became a dead letter.", max_length=40)] = ""
    attempts: Annotated[int, Meta(description="The number of attempts to deliver it.", ge=0)] = 0
    result: Annotated[_Text, Meta(description="The result of the last attempt.")] = ""


class DeadLetterRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A request to replay or drop the dead letters that fit all given fields."""

    id: Annotated[str, Meta(min_length=1, max_length=64)]
    action: DeadLetterAction
    sequences: Annotated[tuple[int, ...], Meta(max_length=1000)] = ()
    ids: Annotated[tuple[_Text, ...], Meta(max_length=1000)] = ()
    """The ids of events."""
    result: _Text = ""
    """Their result contains this text."""
    after: datetime | None = None
    before: datetime | None = None
    """When they became dead letters."""

    def includes(self, letter: DeadLetter) -> bool:
        """Return whether a dead letter fits all given fields."""
        if self.sequences and letter.sequence not in self.sequences:
            return False
        if self.ids and letter.id not in self.ids:
            return False
        if self.result not in letter.result:
            return False
        if self.after is None and self.before is None:
            return True
        if not letter.time:
            return False
        time = datetime.fromisoformat(letter.time)
        return (self.after is None or time >= self.after) and (self.before is None or time < self.before)


class RequestStatus(Struct, frozen=True):
    """How far the last request is."""

    id: Annotated[str, Meta(description="The id of the request.", max_length=64)] = ""
    until: Annotated[
        int, Meta(description="The last number of the dead-letter stream when it began.", ge=0)
    ] = 0
    position: Annotated[int, Meta(description="The last number that was examined.", ge=0)] = 0
    handled: Annotated[int, Meta(description="How many dead letters were replayed or dropped.", ge=0)] = 0
    complete: Annotated[bool, Meta(description="Whether it is complete.")] = False
    message: Annotated[_Text, Meta(description="Why it is refused, or not complete yet.")] = ""

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return self.complete or not self.id


class DeadLetterStatus(Struct, frozen=True):
    """The dead letters of a Subscription."""

    count: Annotated[int, Meta(description="How many there are.", ge=0)] = 0
    oldest: Annotated[
        tuple[DeadLetter, ...], ATOMIC, Meta(description="The oldest of them.", max_length=MOST_LISTED)
    ] = ()
    request: Annotated[RequestStatus, Meta(description="The last request to replay or drop some.")] = (
        RequestStatus()
    )


def find_request(metadata: ObjectMeta) -> DeadLetterRequest | str | None:
    """Return the request of an object, what is wrong with it, or None without one."""
    written = metadata.annotations.get(REQUEST)
    if not written:
        return None
    try:
        request = msgspec.json.decode(written, type=DeadLetterRequest)
    except (*DECODE_ERRORS, ValueError) as error:
        return str(error)
    if any(time is not None and time.tzinfo is None for time in (request.after, request.before)):
        return "after and before need a time zone, such as 2025-01-31T12:00:00Z"
    return request


def encode_request(request: DeadLetterRequest) -> str:
    """Return the value of the annotation."""
    return msgspec.json.encode(request).decode()
