"""What a publisher is answered: a status and the reason, by what went wrong.

Pure. The table is the interface: publishers decide by the status whether to mend the event, to try
again, or to call somebody. Whatever may be tried again may be so with the same event: it is stored once.
"""

from typing import Final, NamedTuple

from quintet.eventing.decide.cloudevents import NotACloudEventError
from quintet.eventing.publisher.decide.subjects import NoSubjectError
from quintet.nats import errors as nats

PUBLISH: Final = "/publish"
RESEND: Final = "send the whole batch again: what is stored already is not stored twice"
# What JetStream says by number alone.
_TOO_LARGE_FOR_THE_STREAM: Final = 10054
_ANOTHER_STREAM: Final = 10060


class Answer(NamedTuple):
    """A status, why, and for those who shall come back when."""

    status: int
    reason: str = ""
    retry_after: int = 0


class BusyError(Exception):
    """More is under way than is kept in memory."""


class BackendError(Exception):
    """What the backend did not do; knows the answer to it."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__(answer.reason)


STORED: Final = Answer(204)
NO_PATH: Final = Answer(404, f"there is nothing here: events are taken in by POST {PUBLISH}")
NO_METHOD: Final = Answer(405, f"events are taken in by POST {PUBLISH}")


def refusal(error: Exception) -> Answer:
    """The answer to an event that was not stored, or of which that is not known."""
    reason = str(error)
    match error:
        case NotACloudEventError() | NoSubjectError() | nats.ProtocolError():
            return Answer(400, reason)
        case BackendError():
            return error.answer
        case nats.PayloadTooLarge():
            return Answer(413, reason)
        case BusyError() | nats.Overloaded():
            return Answer(503, reason, retry_after=1)
        case nats.StreamFull():
            return Answer(507, f"the stream is full: {reason}", retry_after=10)
        case nats.NotReady():
            return Answer(503, f"JetStream is not ready: {reason}", retry_after=1)
        case nats.ApiError(err_code=code) if code == _TOO_LARGE_FOR_THE_STREAM:
            return Answer(413, f"the stream takes no event of this size: {reason}")
        case nats.ApiError(err_code=code) if code == _ANOTHER_STREAM:
            return Answer(504, f"another stream keeps the subject of the event: {reason}")
        case nats.NoResponders() | nats.StreamNotFound() | nats.RequestTimeout():
            return Answer(504, reason, retry_after=1)
        case nats.NatsError():
            return Answer(502, reason, retry_after=1)
    return Answer(500, "the event could not be handled; the log of the publisher proxy says why")


def of_batch(errors: list[Exception | None]) -> Answer:
    """The answer to a batch: that of its first event that failed, and which that was."""
    failed = [(number, error) for number, error in enumerate(errors, 1) if error is not None]
    if not failed:
        return STORED
    number, error = failed[0]
    found = refusal(error)
    others = f", and {len(failed) - 1} more failed" if len(failed) > 1 else ""
    which = f"event {number} of {len(errors)}: {found.reason}{others}"
    return found._replace(reason=f"{which}; {RESEND}" if found.status >= 500 else which)
