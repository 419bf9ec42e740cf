"""The HTTP status and reason of a publish request, by what went wrong. Pure.

The statuses are a public interface: by them publishers decide whether to fix the event, to retry or to raise
an alert. A retry with the same event is safe: it is stored once.
"""

from typing import Final, NamedTuple

from quintet.eventing.decide.cloudevents import NotACloudEventError
from quintet.eventing.publisher.decide.subjects import NoSubjectError
from quintet.nats import errors as nats

PUBLISH: Final = "/publish"
RESEND: Final = "send the whole batch again: events that are stored already are not stored twice"
# JetStream error codes without an error class of their own.
_MESSAGE_TOO_LARGE: Final = 10054
_WRONG_STREAM: Final = 10060


class PublishResult(NamedTuple):
    """Status, reason and optional Retry-After of a response."""

    status: int
    reason: str = ""
    retry_after: int = 0


class BusyError(Exception):
    """Too many events are in flight."""


class BackendError(Exception):
    """A failure of the backend, with the result for the publisher."""

    def __init__(self, result: PublishResult) -> None:
        self.result = result
        super().__init__(result.reason)


STORED: Final = PublishResult(204)
NO_PATH: Final = PublishResult(404, f"not found: publish events with POST {PUBLISH}")
NO_METHOD: Final = PublishResult(405, f"publish events with POST {PUBLISH}")


def result_for_error(error: Exception) -> PublishResult:
    """Return the result for an event that was not stored, or that may not have been stored."""
    reason = str(error)
    match error:
        case NotACloudEventError() | NoSubjectError() | nats.ProtocolError():
            return PublishResult(400, reason)
        case BackendError():
            return error.result
        case nats.PayloadTooLarge():
            return PublishResult(413, reason)
        case BusyError() | nats.Overloaded():
            return PublishResult(503, reason, retry_after=1)
        case nats.StreamFull():
            return PublishResult(507, f"the stream is full: {reason}", retry_after=10)
        case nats.NotReady():
            return PublishResult(503, f"JetStream is not ready: {reason}", retry_after=1)
        case nats.JetStreamError(err_code=code) if code == _MESSAGE_TOO_LARGE:
            return PublishResult(413, f"the event is larger than the stream accepts: {reason}")
        case nats.JetStreamError(err_code=code) if code == _WRONG_STREAM:
            return PublishResult(504, f"another stream has the subject of the event: {reason}")
        case nats.NoResponders() | nats.StreamNotFound() | nats.RequestTimeout():
            return PublishResult(504, reason, retry_after=1)
        case nats.NatsError():
            return PublishResult(502, reason, retry_after=1)
    return PublishResult(500, "internal error; see the log of the publisher proxy")


def result_for_batch(errors: list[Exception | None]) -> PublishResult:
    """Return the result for a batch: that of the first event that failed, with its number."""
    failed = [(number, error) for number, error in enumerate(errors, 1) if error is not None]
    if not failed:
        return STORED
    number, error = failed[0]
    result = result_for_error(error)
    others = f", and {len(failed) - 1} more failed" if len(failed) > 1 else ""
    which = f"event {number} of {len(errors)}: {result.reason}{others}"
    return result._replace(reason=f"{which}; {RESEND}" if result.status >= 500 else which)
